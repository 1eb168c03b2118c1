package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refusing is a file system of which one file may not be read.
type refusing struct {
	fs.FS
	file string
}

// Open implements fs.FS.
func (r refusing) Open(name string) (fs.File, error) {
	if name == r.file {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return r.FS.Open(name)
}

// Stat implements fs.StatFS.
func (r refusing) Stat(name string) (fs.FileInfo, error) { return fs.Stat(r.FS, name) }

func TestFilesThatTheUserMayNotReadAreNamed(t *testing.T) {
	for file, want := range map[string]Result{
		peersFile: {"fabric_list", "/" + peersFile, Fail, "user 998 may not read it", "sudo chmod 0644 /" + peersFile},
		keyFile:   {"fabric_key", "/" + keyFile, Fail, "user 998 may not read it (mode 0640, group ", "chgrp telegraf /" + keyFile},
	} {
		files, c, _ := probing()
		s, _ := probingHost(t, files, c)
		s.Root = refusing{s.Root, file}
		r := Run(t.Context(), s)
		got := r.of(want.Check)[0]
		require.Equal(t, want.Status, got.Status)
		require.Contains(t, got.Text, want.Text)
		require.Contains(t, got.Fix, want.Fix)
	}
}

// certificate returns a certificate in PEM for a name, that is valid until some days after the clock of probingHost.
func certificate(t *testing.T, name string, days int) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: from,
		NotAfter: time.Date(2026, 11, 25+days, 0, 0, 0, 0, time.UTC),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

func TestCertificatesAreReportedWithTheirEnd(t *testing.T) {
	for _, tt := range []struct {
		name, cert, ca string
		status         []Status // of the key, the certificate and the authorities
		text           []string
	}{
		{
			"valid", certificate(t, "gpu01", 365), certificate(t, "", 1000) + certificate(t, "", 30), []Status{OK, OK, OK},
			[]string{"6 bytes, mode 0640", "valid until 2027-11-25", "valid until 2026-12-25"},
		},
		{
			"near their end", certificate(t, "gpu01", 3), certificate(t, "", 14), []Status{OK, Warn, Warn},
			[]string{"", "expires on 2026-11-28", "expires on 2026-12-09"},
		},
		{
			"expired", certificate(t, "gpu01", 0), certificate(t, "", -30), []Status{OK, Fail, Fail},
			[]string{"", "expired on 2026-11-25: no host accepts it", "expired on 2026-10-26"},
		},
		{
			"of another host", certificate(t, "gpu02", 365), "nonsense", []Status{OK, Fail, Fail},
			[]string{"", "want one for this host's name in the list", "it has no certificate in PEM"},
		},
		{"missing", "", "", []Status{OK, Fail, Fail}, []string{"", "no such file", "no such file"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files, c, _ := probing()
			c.KeyFile, c.TLSCert, c.TLSKey, c.TLSCA = "", "/"+tlsCert, "/"+tlsKey, "/"+tlsCA
			s, _ := probingHost(t, files.with(tree{tlsKey: "secret"}).with(tree{tlsCert: tt.cert, tlsCA: tt.ca}), c)
			r := Run(t.Context(), s)
			found := r.of("fabric_key")
			require.Len(t, found, 3)
			for i, one := range found {
				require.Equal(t, []string{"/" + tlsKey, "/" + tlsCert, "/" + tlsCA}[i], one.Subject)
				require.Equal(t, tt.status[i], one.Status, one.Text)
				require.Contains(t, one.Text, tt.text[i])
				require.Equal(t, one.Status != OK, one.Fix != "")
			}
		})
	}
}
