package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refusingFS is a file system in which one file may not be read.
type refusingFS struct {
	fs.FS
	file string
}

// Open implements fs.FS.
func (r refusingFS) Open(name string) (fs.File, error) {
	if name == r.file {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return r.FS.Open(name)
}

// Stat implements fs.StatFS.
func (r refusingFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(r.FS, name) }

func TestFilesThatTheUserMayNotReadAreNamed(t *testing.T) {
	for file, want := range map[string]finding{
		peersFile: {"fabric_list", "/" + peersFile, Fail, "user 998 may not read it", "sudo chmod 0644 /" + peersFile},
		keyFile:   {"fabric_key", "/" + keyFile, Fail, "user 998 may not read it (mode 0640, group ", "chgrp telegraf /" + keyFile},
	} {
		files, c, _ := probingFixture()
		s, _ := probingHost(t, files, c)
		s.Root = refusingFS{s.Root, file}
		r := Run(t.Context(), s)
		got := r.resultsOf(want.Check)[0]
		require.Equal(t, want.Status, got.Status)
		require.Contains(t, got.Text, want.Text)
		require.Contains(t, got.Fix.String(), want.Fix)
	}
}

// newCertificate returns a PEM certificate for a name. It is valid until some days after the clock of probingHost.
func newCertificate(t *testing.T, name string, days int) string {
	t.Helper()
	_, key := newKey(t)
	return certificateOf(t, key, name, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), days)
}

// newKey returns a key, and its text in PEM.
func newKey(t *testing.T) (text string, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})), key
}

// certificateOf returns a certificate for a key. See certificate.
func certificateOf(t *testing.T, key *ecdsa.PrivateKey, name string, from time.Time, days int) string {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: from,
		NotAfter: time.Date(2026, 11, 25+days, 0, 0, 0, 0, time.UTC),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
}

func TestCertificatesAreReportedWithTheirEnd(t *testing.T) {
	key, own := newKey(t)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	keyText := fmt.Sprintf("%d bytes, mode 0640", len(key))
	later := certificateOf(t, own, "", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), 1000)
	for _, tt := range []struct {
		name, cert, ca string
		status         []Status // results for the key, the certificate and the authorities
		text           []string
	}{
		{
			"valid", certificateOf(t, own, "gpu01", from, 365), newCertificate(t, "", 1000) + newCertificate(t, "", 30), []Status{OK, OK, OK},
			[]string{keyText, "valid until 2027-11-25", "valid until 2026-12-25"},
		},
		{
			"the old authority has expired", certificateOf(t, own, "gpu01", from, 365), newCertificate(t, "", -30) + newCertificate(t, "", 1000),
			[]Status{OK, OK, OK},
			[]string{keyText, "valid until 2027-11-25", "valid until 2029-08-21; 1 of its 2 certificates not valid now"},
		},
		{
			"the new authority is not valid yet", certificateOf(t, own, "gpu01", from, 365), newCertificate(t, "", 10) + later, []Status{OK, OK, Warn},
			[]string{keyText, "valid until 2027-11-25", "expires on 2026-12-05; 1 of its 2 certificates not valid now"},
		},
		{
			"no authority is valid yet", certificateOf(t, own, "gpu01", from, 365), later, []Status{OK, OK, Fail},
			[]string{keyText, "valid until 2027-11-25", "not valid before 2026-12-01: no host accepts it"},
		},
		{
			"near their end", certificateOf(t, own, "gpu01", from, 3), newCertificate(t, "", 14), []Status{OK, Warn, Warn},
			[]string{"", "expires on 2026-11-28", "expires on 2026-12-09"},
		},
		{
			"expired", certificateOf(t, own, "gpu01", from, 0), newCertificate(t, "", -30) + newCertificate(t, "", -20), []Status{OK, Fail, Fail},
			[]string{"", "expired on 2026-11-25: no host accepts it", "expired on 2026-10-26"},
		},
		{
			"of another host", certificateOf(t, own, "gpu02", from, 365), "nonsense", []Status{OK, Fail, Fail},
			[]string{"", "want one for this host's name in the list", "it has no certificate in PEM"},
		},
		{"missing", "", "", []Status{OK, Fail, Fail}, []string{"", "no such file", "no such file"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files, c, _ := probingFixture()
			c.KeyFile, c.TLSCert, c.TLSKey, c.TLSCA = "", "/"+tlsCert, "/"+tlsKey, "/"+tlsCA
			s, _ := probingHost(t, files.with(tree{tlsKey: key}).with(tree{tlsCert: tt.cert, tlsCA: tt.ca}), c)
			r := Run(t.Context(), s)
			found := r.resultsOf("fabric_key")
			require.Len(t, found, 3)
			for i, one := range found {
				require.Equal(t, []string{"/" + tlsKey, "/" + tlsCert, "/" + tlsCA}[i], one.Subject)
				require.Equal(t, tt.status[i], one.Status, one.Text)
				require.Contains(t, one.Text, tt.text[i])
				require.Equal(t, one.Status != OK, !one.Fix.IsZero())
			}
		})
	}
}

func TestAKeyOfAnotherCertificateIsAFailure(t *testing.T) {
	key, own := newKey(t)
	other, _ := newKey(t)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		other:            "private key does not match public key",
		"secret":         "failed to find any PEM data in key input",
		key[:len(key)/2]: "failed to find any PEM data in key input",
	} {
		files, c, _ := probingFixture()
		c.KeyFile, c.TLSCert, c.TLSKey, c.TLSCA = "", "/"+tlsCert, "/"+tlsKey, "/"+tlsCA
		s, _ := probingHost(t, files.with(tree{
			tlsKey: text, tlsCert: certificateOf(t, own, "gpu01", from, 365), tlsCA: newCertificate(t, "", 1000),
		}), c)
		r := Run(t.Context(), s)
		found := r.resultsOf("fabric_key")
		require.Equal(t, Fail, found[0].Status)
		require.Contains(t, found[0].Text, "it is not the key of the certificate in /"+tlsCert+": ")
		require.Contains(t, found[0].Text, want)
		require.NotContains(t, found[0].Text, "\n")
		require.Equal(t, "sudo install -m 0640 -g telegraf NEW.key /"+tlsKey, found[0].Fix.String())
		require.Equal(t, []Status{OK, OK}, []Status{found[1].Status, found[2].Status})
		if lines := strings.Split(text, "\n"); len(lines) > 2 {
			require.NotContains(t, textOf(t, &r), lines[1], "nothing of the key is shown")
		}
	}
}
