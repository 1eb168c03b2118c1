package exchange

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAKeyFileThatCannotBeIsALineThatSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	rows := map[string]struct{ path, want string }{
		"not there":               {filepath.Join(dir, "nothing"), "no such file or directory"},
		"a directory":             {dir, "it is no regular file: want one"},
		"a named pipe":            {pipe, "it is no regular file: want one"},
		"others may read it":      {write("0644", key, 0o644), "its mode is 0644: want 0640 or less, as by chmod 0640"},
		"others may execute it":   {write("0641", key, 0o641), "its mode is 0641: want 0640 or less, as by chmod 0640"},
		"the group may write it":  {write("0660", key, 0o660), "its mode is 0660: want 0640 or less, as by chmod 0640"},
		"empty":                   {write("empty", "", 0o600), "it has 0 bytes: want 32 random ones or more, as by head -c 32 /dev/urandom"},
		"a byte too few":          {write("31", key[1:], 0o600), "it has 31 bytes: want 32 random ones or more, as by head -c 32 /dev/urandom"},
		"zeros":                   {write("zeros", strings.Repeat("\x00", 64), 0o600), "all its bytes are the same: want random ones, as by head -c 32 /dev/urandom"},
		"more than a key can be":  {write("large", strings.Repeat("ab", maxFile), 0o600), "it has more than 65536 bytes: is it the right file?"},
		"a name with odd letters": {filepath.Join(dir, "a\nb"), "no such file or directory"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := NewCredentials("gpu1", Files{Key: row.path}, time.Now, nil)
			require.EqualError(t, err, "key_file = "+quote(row.path)+": "+row.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, "\n", `\n`) + `"` }

func TestOptionsThatDoNotFitAreALine(t *testing.T) {
	rows := map[string]struct {
		files Files
		want  string
	}{
		"none":              {Files{}, "no key: set key_file to a file of 32 random bytes that all hosts have, or tls_cert, tls_key and tls_ca"},
		"both":              {Files{Key: "k", TLSCA: "c"}, "key_file is set, and tls_cert, tls_key or tls_ca too: remove the one or the others"},
		"no certificate":    {Files{TLSKey: "k", TLSCA: "c"}, "tls_cert is not set: tls_cert, tls_key and tls_ca are needed together"},
		"no key of its own": {Files{TLSCert: "k", TLSCA: "c"}, "tls_key is not set: tls_cert, tls_key and tls_ca are needed together"},
		"no authority":      {Files{TLSCert: "k", TLSKey: "c"}, "tls_ca is not set: tls_cert, tls_key and tls_ca are needed together"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := NewCredentials("gpu1", row.files, time.Now, nil)
			require.EqualError(t, err, row.want)
		})
	}
}

// A final newline and blanks are part of the key.
func TestAKeyIsAllBytesOfItsFile(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o600, 0o440, 0o400} {
		path := keyFile(t, key+"\n")
		require.NoError(t, os.Chmod(path, mode))
		got, err := readKey(path)
		require.NoError(t, err)
		require.Equal(t, key+"\n", string(got))
	}
	r := startResponder(t, "gpu1", credentialsOf(t, "gpu1", key))
	requireKey(t, r, newPeer(t, r, "gpu2", credentialsOf(t, "gpu2", key+"\n")))
}

// A host name in the list need not be a valid DNS name.
func TestEveryNameOfAListIsProven(t *testing.T) {
	for _, name := range []string{
		"gpu1", "GPU-1.rack_7.example", "10.0.0.7", "1", "a..b", "a.-b", strings.Repeat("x", 64), strings.Repeat("x.", 31) + "xx",
	} {
		t.Run(name, func(t *testing.T) {
			r := startResponder(t, name, credentialsOf(t, name, key))
			c := mustConverse(t, newPeer(t, r, name+"0", credentialsOf(t, name+"0", key)))
			require.NoError(t, c.Err())
		})
	}
}

func clockAt(year int) func() time.Time {
	return func() time.Time { return time.Date(year, 1, 1, 0, 0, 1, 0, time.UTC) }
}

func TestTheClockSaysNothingAboutAKey(t *testing.T) {
	for _, years := range [][2]int{{1970, 2100}, {2100, 1970}, {1970, 1970}, {2100, 2100}, {9999, 1970}} {
		own, err := NewCredentials("gpu1", Files{Key: keyFile(t, key)}, clockAt(years[0]), nil)
		require.NoError(t, err)
		other, err := NewCredentials("gpu2", Files{Key: keyFile(t, key)}, clockAt(years[1]), nil)
		require.NoError(t, err)
		r := startResponder(t, "gpu1", own)
		require.NoError(t, mustConverse(t, newPeer(t, r, "gpu2", other)).Err(), "%v", years)
	}
}

// ca is the certificate authority of an organisation.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t *testing.T, name string) *ca {
	t.Helper()
	c := &ca{}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: clockAt(2000)(), NotAfter: clockAt(2200)(),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	c.cert, c.key = newCertificate(t, template, nil, nil)
	return c
}

func newCertificate(t *testing.T, template, parent *x509.Certificate, signs *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	if parent == nil {
		parent, signs = template, own
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), signs)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return cert, own
}

// host writes the files of a host whose certificate is valid between two years.
func (c *ca) host(t *testing.T, name string, from, to int) Files {
	t.Helper()
	dir := t.TempDir()
	f := Files{TLSCert: filepath.Join(dir, "cert"), TLSKey: filepath.Join(dir, "key"), TLSCA: filepath.Join(dir, "ca")}
	c.renew(t, f, name, from, to)
	return f
}

func (c *ca) renew(t *testing.T, f Files, name string, from, to int) {
	t.Helper()
	cert, own := newCertificate(t, &x509.Certificate{
		DNSNames: []string{name + ".example", name}, KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: clockAt(from)(), NotAfter: clockAt(to)(),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, c.cert, c.key)
	raw, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(t, err)
	writePEM(t, f.TLSCert, "CERTIFICATE", cert.Raw)
	writePEM(t, f.TLSKey, "PRIVATE KEY", raw)
	writePEM(t, f.TLSCA, "CERTIFICATE", c.cert.Raw)
}

// writePEM replaces a file atomically, as operators' tools do.
func writePEM(t *testing.T, path, kind string, raw []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// lines collects a log for a test.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

func (l *lines) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// certifiedCredentials returns the credentials of a host with certificate files.
func certifiedCredentials(t *testing.T, name string, f Files, year int, l *lines) *Credentials {
	t.Helper()
	c, err := NewCredentials(name, f, clockAt(year), l.log())
	require.NoError(t, err)
	return c
}

func TestHostsWithCertificatesMeet(t *testing.T) {
	a, l := newCA(t, "a"), &lines{}
	r := startResponder(t, "gpu1", certifiedCredentials(t, "gpu1", a.host(t, "gpu1", 2025, 2027), 2026, l))
	_, err := mustConverse(t, newPeer(t, r, "gpu2", certifiedCredentials(t, "gpu2", a.host(t, "gpu2", 2025, 2027), 2026, l))).Offer(testContext(t), newOffer(1))
	require.NoError(t, err)
	refused := func(c *Credentials) {
		_, err := newPeer(t, r, "gpu3", c).Converse(testContext(t), "")
		require.ErrorIs(t, err, ErrKey)
		t.Log(err)
	}
	refused(certifiedCredentials(t, "gpu3", newCA(t, "b").host(t, "gpu3", 2025, 2027), 2026, l))
	refused(credentialsOf(t, "gpu3", key))
	refused(certifiedCredentials(t, "gpu2", a.host(t, "gpu2", 2025, 2027), 2026, l)) // which greets as gpu3
	require.Zero(t, l.text.Len())
}

func TestAnExpiredCertificateIsRefusedByBothSides(t *testing.T) {
	a, l := newCA(t, "a"), &lines{}
	good, old := a.host(t, "gpu1", 2020, 2050), a.host(t, "gpu2", 2020, 2022)
	expired := certifiedCredentials(t, "gpu2", old, 2026, l)
	require.Equal(t, 1, l.count("certificate is not valid now: peers reject it until it is replaced"))

	r := startResponder(t, "gpu1", certifiedCredentials(t, "gpu1", good, 2026, l))
	_, err := newPeer(t, r, "gpu2", expired).Converse(testContext(t), "")
	require.ErrorIs(t, err, ErrKey)
	require.ErrorContains(t, err, "it says that the own certificate is not valid now")

	r = startResponder(t, "gpu2", expired)
	_, err = newPeer(t, r, "gpu1", certifiedCredentials(t, "gpu1", good, 2026, l)).Converse(testContext(t), "")
	require.ErrorIs(t, err, ErrKey)
	require.ErrorContains(t, err, "its certificate is not valid now")

	// The year of the check counts, and nothing else.
	r = startResponder(t, "gpu1", certifiedCredentials(t, "gpu1", good, 2021, l))
	require.NoError(t, mustConverse(t, newPeer(t, r, "gpu2", certifiedCredentials(t, "gpu2", old, 2021, l))).Err())
}

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	a, l := newCA(t, "a"), &lines{}
	files := a.host(t, "gpu2", 2020, 2022)
	r := startResponder(t, "gpu1", certifiedCredentials(t, "gpu1", a.host(t, "gpu1", 2020, 2050), 2026, l), func(s *Server) { s.limits.handshakes = 100 })
	p := newPeer(t, r, "gpu2", certifiedCredentials(t, "gpu2", files, 2026, l))
	_, err := p.State(testContext(t), nil)
	require.ErrorIs(t, err, ErrKey)

	a.renew(t, files, "gpu2", 2025, 2027)
	_, err = p.State(testContext(t), nil)
	require.NoError(t, err)
	r.stop()

	// The responder reads its files again too: it now trusts another authority.
	b, own := newCA(t, "b"), a.host(t, "gpu1", 2020, 2050)
	r = startResponder(t, "gpu1", certifiedCredentials(t, "gpu1", own, 2026, l))
	p = newPeer(t, r, "gpu3", certifiedCredentials(t, "gpu3", b.host(t, "gpu3", 2020, 2050), 2026, l))
	_, err = p.State(testContext(t), nil)
	require.ErrorIs(t, err, ErrKey)
	b.renew(t, own, "gpu1", 2020, 2050)
	_, err = p.State(testContext(t), nil)
	require.NoError(t, err)
}

func TestCertificatesThatDoNotFitAreNotTaken(t *testing.T) {
	a, l := newCA(t, "a"), &lines{}
	files := a.host(t, "gpu1", 2020, 2050)
	c := certifiedCredentials(t, "gpu1", files, 2026, l)
	held := c.current()
	for i, spoil := range []func(){
		func() { require.NoError(t, os.WriteFile(files.TLSKey, nil, 0o600)) },
		func() { require.NoError(t, os.Remove(files.TLSKey)) },
		func() { writePEM(t, files.TLSCA, "PRIVATE KEY", nil) },
		func() { a.renew(t, files, "gpu9", 2020, 2050) },
	} {
		spoil()
		require.Equal(t, held, c.current())
		require.Equal(t, held, c.current(), "one line is enough")
		require.Equal(t, i+1, l.count("certificates not reloaded: the previous ones remain in use"))
	}
	a.renew(t, files, "gpu1", 2020, 2050)
	require.NotEqual(t, held.cert.Certificate, c.current().cert.Certificate)
	require.Equal(t, 4, l.count("\n"))
}

// The user follows the advice in the log (chmod), which does not change the content of the files.
func TestCertificatesAreReadAgainWhenAModeIsCorrected(t *testing.T) {
	a, l := newCA(t, "a"), &lines{}
	files := a.host(t, "gpu1", 2020, 2026)
	c := certifiedCredentials(t, "gpu1", files, 2025, l)
	held := c.current()
	a.renew(t, files, "gpu1", 2024, 2050)
	require.NoError(t, os.Chmod(files.TLSKey, 0o644))
	for range 2 {
		require.Equal(t, held, c.current())
	}
	require.Equal(t, 1, l.count("its mode is 0644: want 0640 or less, as by chmod 0640"))
	require.NoError(t, os.Chmod(files.TLSKey, 0o640))
	renewed := c.current()
	require.NotEqual(t, held.cert.Certificate, renewed.cert.Certificate)
	require.Equal(t, renewed, c.current())
	require.Equal(t, 1, l.count("\n"))
}

// The cause of this failure is not in a file, so no stamp changes when it disappears.
func TestCertificatesAreReadAgainAfterAFailure(t *testing.T) {
	a, l := newCA(t, "a"), &lines{}
	files := a.host(t, "gpu1", 2020, 2026)
	c, err := openCertificates("gpu9", files, clockAt(2025), l.log())
	require.Error(t, err)
	require.Nil(t, c)
	c, err = openCertificates("gpu1", files, clockAt(2025), l.log())
	require.NoError(t, err)
	held := c.current()
	a.renew(t, files, "gpu1", 2024, 2050)
	c.host = "gpu9"
	for range 2 {
		require.Equal(t, held, c.current())
	}
	require.Equal(t, 1, l.count("certificates not reloaded: the previous ones remain in use"))
	c.host = "gpu1"
	require.NotEqual(t, held.cert.Certificate, c.current().cert.Certificate)
}

func TestCertificatesThatAreHalfWrittenAreNotTaken(t *testing.T) {
	a, b, l := newCA(t, "a"), newCA(t, "b"), &lines{}
	files := a.host(t, "gpu1", 2020, 2050)
	c := certifiedCredentials(t, "gpu1", files, 2026, l)
	held := c.current()
	whole := func(path string) []byte {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.cert.Raw})...)
	}
	for _, path := range []string{files.TLSCA, files.TLSCert} {
		text := whole(path)
		require.NoError(t, os.WriteFile(path, text[:len(text)-40], 0o600))
		require.Equal(t, held, c.current())
		require.Equal(t, 1, l.count(path+`\": it ends within a certificate: is it being written?`))
		require.NoError(t, os.WriteFile(path, text, 0o600))
		next := c.current()
		require.NotEqual(t, held, next)
		held = next
	}
	require.Len(t, held.cert.Certificate, 2)
}

func TestACertificateFileThatCannotBeIsALineThatNamesIt(t *testing.T) {
	a := newCA(t, "a")
	good := a.host(t, "gpu1", 2020, 2050)
	other := a.host(t, "gpu9", 2020, 2050)
	open := filepath.Join(t.TempDir(), "open")
	raw, err := os.ReadFile(good.TLSKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(open, raw, 0o600))
	require.NoError(t, os.Chmod(open, 0o644))
	none := filepath.Join(t.TempDir(), "none")
	rows := map[string]struct {
		files Files
		want  []string
	}{
		"no certificate":         {Files{TLSCert: none, TLSKey: good.TLSKey, TLSCA: good.TLSCA}, []string{`tls_cert = "` + none + `": no such file or directory`}},
		"no key":                 {Files{TLSCert: good.TLSCert, TLSKey: none, TLSCA: good.TLSCA}, []string{`tls_key = "` + none + `": no such file or directory`}},
		"no authorities":         {Files{TLSCert: good.TLSCert, TLSKey: good.TLSKey, TLSCA: none}, []string{`tls_ca = "` + none + `": no such file or directory`}},
		"a key that others read": {Files{TLSCert: good.TLSCert, TLSKey: open, TLSCA: good.TLSCA}, []string{`tls_key = "` + open + `": its mode is 0644`}},
		"the key of another": {Files{TLSCert: good.TLSCert, TLSKey: other.TLSKey, TLSCA: good.TLSCA}, []string{
			`tls_cert = "` + good.TLSCert, `tls_key = "` + other.TLSKey,
		}},
		"authorities without": {Files{TLSCert: good.TLSCert, TLSKey: good.TLSKey, TLSCA: good.TLSKey}, []string{
			`tls_ca = "` + good.TLSKey + `": it has no certificate in PEM`,
		}},
		"of another host": {Files{TLSCert: other.TLSCert, TLSKey: other.TLSKey, TLSCA: good.TLSCA}, []string{
			`tls_cert = "` + other.TLSCert, "not gpu1", "want one for this host's name in the list, or set host to the name that it has",
		}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := NewCredentials("gpu1", row.files, clockAt(2026), nil)
			for _, want := range row.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "\n")
			t.Log(err)
		})
	}
}
