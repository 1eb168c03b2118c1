package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Files has the paths of the options key_file, tls_cert, tls_key and tls_ca. Either the first one is set, or the other three are.
type Files struct {
	Key     string
	TLSCert string
	TLSKey  string
	TLSCA   string
}

// Credentials prove the name of this host to peers, and verify the names of peers. They may be used concurrently.
type Credentials struct {
	host     string
	now      func() time.Time
	current  func() tlsIdentity       // returns the current identity
	certName func(host string) string // returns the name in the certificate of a host
}

// tlsIdentity is a certificate with its key, together with the authorities of the peers' certificates.
type tlsIdentity struct {
	cert  tls.Certificate
	roots *x509.CertPool
}

// NewCredentials returns the credentials of the host with the name host in the list.
//
// With a key file, it reads the file once and creates certificates in memory, whose validity does not depend on the clock. Otherwise it reads the
// certificate files. Those certificates must allow use by servers and clients, and their DNS names or IP addresses must contain the name of their
// host. Each handshake checks whether the files have changed, and reads them again if so. If reading fails, the previous certificates remain in
// use, and log gets a warning.
//
// The error is one line with the option, the file, the fault and the remedy.
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
		h, err := issueIdentity(key, host)
		if err != nil {
			return nil, fmt.Errorf("key_file = %q: %w", f.Key, err)
		}
		c.current = func() tlsIdentity { return h }
		c.certName = func(host string) string { return hostAlias(key, host) }
		return c, nil
	}
	kept, err := openCertificates(host, f, now, log)
	if err != nil {
		return nil, err
	}
	c.current = kept.current
	c.certName = func(host string) string { return host }
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

// baseConfig returns the configuration common to both sides of a handshake.
func (c *Credentials) baseConfig() *tls.Config {
	h := c.current()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Time: c.now,
		Certificates: []tls.Certificate{h.cert}, RootCAs: h.roots, ClientCAs: h.roots,
		// A resumed session would skip the verification of certificates.
		SessionTicketsDisabled: true,
	}
}

// clientConfig returns the client's configuration for a handshake with a host. The host's certificate must be for its name in the list.
func (c *Credentials) clientConfig(host string) *tls.Config {
	t := c.baseConfig()
	t.ServerName = c.certName(host)
	return t
}

// serverConfig returns the server's configuration for a handshake with any caller.
func (c *Credentials) serverConfig() *tls.Config {
	t := c.baseConfig()
	t.ClientAuth = tls.RequireAndVerifyClientCert
	return t
}

// matchesHost reports whether a verified certificate belongs to the host.
func (c *Credentials) matchesHost(cert *x509.Certificate, host string) bool {
	return host != "" && cert.VerifyHostname(c.certName(host)) == nil
}

// verifyChain returns an error unless a chain of certificates leads to a known authority.
func (c *Credentials) verifyChain(chain []*x509.Certificate) error {
	o := x509.VerifyOptions{Roots: c.current().roots, CurrentTime: c.now(), Intermediates: x509.NewCertPool()}
	for _, cert := range chain[1:] {
		o.Intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(o)
	return err
}
