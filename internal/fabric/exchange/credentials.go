package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Files are the files of the options key_file, tls_cert, tls_key and tls_ca. It is either the first, or the other three.
type Files struct {
	Key     string
	TLSCert string
	TLSKey  string
	TLSCA   string
}

// Credentials prove to peers that this host is the one of its name, and has theirs prove it. They may be used concurrently.
type Credentials struct {
	host string
	now  func() time.Time
	held func() holding           // what is valid at this moment
	name func(host string) string // what the certificate of a host is for
}

// holding is a certificate with its key, and the authorities of those of peers.
type holding struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

// NewCredentials returns the credentials of the host that the list calls host. With a key file they are made in memory and do
// not depend on the clock, and the file is read once. The certificates of the other files are for servers and for clients, and
// have the name of their host among their DNS names or IP addresses; the files are looked at in each handshake, and read
// again when they have changed. If that fails, what was read before goes on to be used, and log has a line.
//
// The error is one line that names the option, the file, what is wrong and what to do.
func NewCredentials(host string, f Files, now func() time.Time, log *slog.Logger) (*Credentials, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	c := &Credentials{host: host, now: now}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if f.Key != "" {
		key, err := readKey(f.Key)
		if err != nil {
			return nil, err
		}
		h, err := issue(key, host)
		if err != nil {
			return nil, fmt.Errorf("key_file = %q: %w", f.Key, err)
		}
		c.held = func() holding { return h }
		c.name = func(host string) string { return alias(key, host) }
		return c, nil
	}
	kept, err := openCertificates(host, f, now, log)
	if err != nil {
		return nil, err
	}
	c.held = kept.current
	c.name = func(host string) string { return host }
	return c, nil
}

// check reports options that are missing or exclude each other.
func (f Files) check() error {
	options := []struct{ name, value string }{{"tls_cert", f.TLSCert}, {"tls_key", f.TLSKey}, {"tls_ca", f.TLSCA}}
	set := 0
	missing := ""
	for _, o := range options {
		if o.value != "" {
			set++
		} else if missing == "" {
			missing = o.name
		}
	}
	switch {
	case f.Key != "" && set > 0:
		return errors.New("key_file is set, and tls_cert, tls_key or tls_ca too: remove the one or the others")
	case f.Key == "" && set == 0:
		return errors.New("no key: set key_file to a file of 32 random bytes that all hosts have, or tls_cert, tls_key and tls_ca")
	case f.Key == "" && missing != "":
		return fmt.Errorf("%s is not set: tls_cert, tls_key and tls_ca are needed together", missing)
	}
	return nil
}

// config returns what both sides of a handshake have in common.
func (c *Credentials) config() *tls.Config {
	h := c.held()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Time: c.now,
		Certificates: []tls.Certificate{h.cert}, RootCAs: h.roots, ClientCAs: h.roots,
		// A resumed session would not look at the certificates again.
		SessionTicketsDisabled: true,
	}
}

// client returns the configuration of a handshake with a host, whose certificate has to be for its name in the list.
func (c *Credentials) client(host string) *tls.Config {
	t := c.config()
	t.ServerName = c.name(host)
	return t
}

// server returns the configuration of a handshake with whoever calls.
func (c *Credentials) server() *tls.Config {
	t := c.config()
	t.ClientAuth = tls.RequireAndVerifyClientCert
	return t
}

// prove reports whether a certificate that was verified is that of the host.
func (c *Credentials) prove(cert *x509.Certificate, host string) bool {
	return host != "" && cert.VerifyHostname(c.name(host)) == nil
}

// trust returns an error unless a chain of certificates leads to an authority that is known here.
func (c *Credentials) trust(chain []*x509.Certificate) error {
	o := x509.VerifyOptions{Roots: c.held().roots, CurrentTime: c.now(), Intermediates: x509.NewCertPool()}
	for _, cert := range chain[1:] {
		o.Intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(o)
	return err
}
