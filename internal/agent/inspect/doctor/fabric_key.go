package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
)

const (
	// maxSecretMode is the most permissive mode of a file with a secret.
	maxSecretMode = 0o640
	// minKeyLength is the minimum length of a key, in bytes.
	minKeyLength = 32
	// expiryWarning is the remaining validity below which a certificate is a warning.
	expiryWarning = 14 * 24 * time.Hour
)

// checkFabricKey checks the files by which this host authenticates itself. It shows nothing of the content of a key.
func checkFabricKey(x *examination) []Result {
	h := x.fabric
	if h.KeyFile != "" {
		return []Result{x.checkKeyFile(h.KeyFile)}
	}
	return []Result{x.checkTLSKey(h.TLSKey, h.TLSCert), x.checkCertificates(h.TLSCert, true), x.checkCertificates(h.TLSCA, false)}
}

// checkTLSKey checks the file of fabric.tls_key, and whether it matches the certificate. checkCertificates reports a
// certificate that cannot be read.
func (x *examination) checkTLSKey(path, certificate string) Result {
	r := x.checkSecret(path)
	all, err := x.readCertificates(certificate)
	if r.Status != OK || err != nil {
		return r
	}
	key, err := fs.ReadFile(x.Root, inspect.Relative(path))
	if err == nil {
		_, err = tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: all[0].Raw}), key)
	}
	if err != nil {
		r.Status, r.Text = Fail, fmt.Sprintf("it is not the key of the certificate in %s: %s", certificate, oneLine(withoutPath(err)))
		r.Fix = x.command(advice.InstallKey, path)
	}
	return r
}

// checkKeyFile checks the file of fabric.key_file.
func (x *examination) checkKeyFile(path string) Result {
	r := x.checkSecret(path)
	info, err := fs.Stat(x.Root, inspect.Relative(path))
	if r.Status == OK && err == nil && info.Size() < minKeyLength {
		r.Status, r.Text = Fail, fmt.Sprintf("%d bytes: want %d random ones or more, the same on all hosts", info.Size(), minKeyLength)
		r.Fix = x.command(advice.MakeKey, path)
	}
	return r
}

// checkSecret checks that a file can be read, and that its mode does not let other users read it.
func (x *examination) checkSecret(path string) Result {
	r := Result{Check: "fabric_key", Subject: path, Status: Fail, Fix: x.command(advice.GiveSecret, path)}
	info, err := fs.Stat(x.Root, inspect.Relative(path))
	switch {
	case err != nil:
		r.Text, r.Fix = oneLine(withoutPath(err)), x.editConfig()
		return r
	case !info.Mode().IsRegular():
		r.Text, r.Fix = "it is no regular file", x.editConfig()
		return r
	case info.Mode().Perm()&^maxSecretMode != 0:
		r.Text = fmt.Sprintf("mode %04o: others may read it; want %04o or less", info.Mode().Perm(), maxSecretMode)
		return r
	}
	f, err := x.Root.Open(inspect.Relative(path))
	if err != nil {
		r.Text = oneLine(withoutPath(err))
		if errors.Is(err, fs.ErrPermission) {
			r.Text = fmt.Sprintf("user %d may not read it (mode %04o, group %s)", x.UID, info.Mode().Perm(), x.groupName(info))
		}
		return r
	}
	_ = f.Close() // nothing was written
	r.Status, r.Fix, r.Text = OK, advice.Line{}, fmt.Sprintf("%d bytes, mode %04o", info.Size(), info.Mode().Perm())
	return r
}

// checkCertificates checks until when the certificates in a file are valid. If own is true, the first one must be for
// this host's name. Of several authorities it is enough that one is valid now: while authorities are replaced, the old
// one may have expired or the new one may not be valid yet.
func (x *examination) checkCertificates(path string, own bool) Result {
	r := Result{Check: "fabric_key", Subject: path, Status: Fail, Fix: x.command(advice.InstallCertificate, path)}
	all, err := x.readCertificates(path)
	if err != nil {
		r.Text = oneLine(withoutPath(err))
		return r
	}
	if own {
		if err := all[0].VerifyHostname(x.fabric.Host); err != nil {
			r.Text = oneLine(err) + "; want one for this host's name in the list"
			return r
		}
		all = all[:1]
	}
	valid := slices.DeleteFunc(slices.Clone(all), func(c *x509.Certificate) bool {
		return x.Now().Before(c.NotBefore) || !c.NotAfter.After(x.Now())
	})
	others := ""
	if n := len(all) - len(valid); n > 0 && len(valid) > 0 {
		others = fmt.Sprintf("; %d of its %d certificates not valid now", n, len(all))
		all = valid
	}
	first := all[0] // the first one to expire
	for _, c := range all {
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	const day = "2006-01-02"
	switch left := first.NotAfter.Sub(x.Now()); {
	case left <= 0:
		r.Text = "expired on " + first.NotAfter.Format(day) + ": no host accepts it"
	case x.Now().Before(first.NotBefore):
		r.Text = "not valid before " + first.NotBefore.Format(day) + ": no host accepts it"
	case left <= expiryWarning:
		r.Status, r.Text = Warn, "expires on "+first.NotAfter.Format(day)+others
	default:
		r.Status, r.Fix, r.Text = OK, advice.Line{}, "valid until "+first.NotAfter.Format(day)+others
	}
	return r
}

// readCertificates returns the certificates in a file. It returns an error if there is none.
func (x *examination) readCertificates(path string) (all []*x509.Certificate, err error) {
	text, err := fs.ReadFile(x.Root, inspect.Relative(path))
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("a certificate of it cannot be read: %w", err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	return all, nil
}
