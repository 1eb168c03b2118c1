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
	// secretMode is the most that others may do with a secret file.
	secretMode = 0o640
	// leastKey is the least length of a key, in bytes.
	leastKey = 32
	// expiresSoon is how long before its end a certificate is a warning.
	expiresSoon = 14 * 24 * time.Hour
)

// checkFabricKey reports the files that prove who this host is. It shows nothing of what is in a key.
func checkFabricKey(x *examination) []Result {
	h := x.hosts
	if h.KeyFile != "" {
		return []Result{x.checkKeyFile(h.KeyFile)}
	}
	return []Result{x.checkTLSKey(h.TLSKey, h.TLSCert), x.checkCertificates(h.TLSCert, true), x.checkCertificates(h.TLSCA, false)}
}

// checkTLSKey reports the file of fabric.tls_key, and whether its key is that of the certificate. A certificate that cannot be read
// is reported by checkCertificates.
func (x *examination) checkTLSKey(path, certificate string) Result {
	r := x.checkSecret(path)
	all, err := x.certificates(certificate)
	if r.Status != OK || err != nil {
		return r
	}
	key, err := fs.ReadFile(x.Root, inspect.Relative(path))
	if err == nil {
		_, err = tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: all[0].Raw}), key)
	}
	if err != nil {
		r.Status, r.Text = Fail, fmt.Sprintf("it is not the key of the certificate in %s: %s", certificate, oneLine(bare(err)))
		r.Fix = x.line(advice.InstallKey, path)
	}
	return r
}

// checkKeyFile reports the file of fabric.key_file.
func (x *examination) checkKeyFile(path string) Result {
	r := x.checkSecret(path)
	info, err := fs.Stat(x.Root, inspect.Relative(path))
	if r.Status == OK && err == nil && info.Size() < leastKey {
		r.Status, r.Text = Fail, fmt.Sprintf("%d bytes: want %d random ones or more, the same on all hosts", info.Size(), leastKey)
		r.Fix = x.line(advice.MakeKey, path)
	}
	return r
}

// checkSecret reports a file that others may not read.
func (x *examination) checkSecret(path string) Result {
	r := Result{Check: "fabric_key", Subject: path, Status: Fail, Fix: x.line(advice.GiveSecret, path)}
	info, err := fs.Stat(x.Root, inspect.Relative(path))
	switch {
	case err != nil:
		r.Text, r.Fix = oneLine(bare(err)), x.editConfig()
		return r
	case !info.Mode().IsRegular():
		r.Text, r.Fix = "it is no regular file", x.editConfig()
		return r
	case info.Mode().Perm()&^secretMode != 0:
		r.Text = fmt.Sprintf("mode %04o: others may read it; want %04o or less", info.Mode().Perm(), secretMode)
		return r
	}
	f, err := x.Root.Open(inspect.Relative(path))
	if err != nil {
		r.Text = oneLine(bare(err))
		if errors.Is(err, fs.ErrPermission) {
			r.Text = fmt.Sprintf("user %d may not read it (mode %04o, group %s)", x.UID, info.Mode().Perm(), x.group(info))
		}
		return r
	}
	_ = f.Close() // nothing was written
	r.Status, r.Fix, r.Text = OK, advice.Line{}, fmt.Sprintf("%d bytes, mode %04o", info.Size(), info.Mode().Perm())
	return r
}

// checkCertificates reports until when the certificates of a file are valid, and whether the first is this host's if it has to be.
// Of several authorities one has to be valid now: during a change of authority the old one may have expired already, or the new one
// not be valid yet.
func (x *examination) checkCertificates(path string, own bool) Result {
	r := Result{Check: "fabric_key", Subject: path, Status: Fail, Fix: x.line(advice.InstallCertificate, path)}
	all, err := x.certificates(path)
	if err != nil {
		r.Text = oneLine(bare(err))
		return r
	}
	if own {
		if err := all[0].VerifyHostname(x.hosts.Host); err != nil {
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
	first := all[0] // that ends
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
	case left <= expiresSoon:
		r.Status, r.Text = Warn, "expires on "+first.NotAfter.Format(day)+others
	default:
		r.Status, r.Fix, r.Text = OK, advice.Line{}, "valid until "+first.NotAfter.Format(day)+others
	}
	return r
}

// certificates returns the certificates of a file, one at least.
func (x *examination) certificates(path string) (all []*x509.Certificate, err error) {
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
