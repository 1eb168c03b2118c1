package exchange

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"rdma_events/internal/sys/filestate"
)

// certificates are those of the files tls_cert, tls_key and tls_ca, as they were when all three could be read last.
type certificates struct {
	host  string
	files Files
	now   func() time.Time
	log   *slog.Logger

	mu     sync.Mutex
	seen   [3]stamp // of the files when they were looked at last
	held   holding
	failed string // the error of the last attempt to read them, "" if it succeeded
}

// stamp is what changes with a file.
type stamp struct {
	info fs.FileInfo // nil: there is no file
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return filestate.Same(s.info, o.info)
}

func openCertificates(host string, f Files, now func() time.Time, log *slog.Logger) (*certificates, error) {
	c := &certificates{host: host, files: f, now: now, log: log}
	c.seen = c.stamps()
	held, err := c.read()
	if err != nil {
		return nil, err
	}
	c.hold(held)
	return c, nil
}

// hold uses certificates from now on, and warns if peers will refuse the host's own.
func (c *certificates) hold(held holding) {
	c.held = held
	own := held.cert.Leaf
	if at := c.now(); at.Before(own.NotBefore) || at.After(own.NotAfter) {
		c.log.Warn("the certificate is not valid now, and no peer accepts it: replace it",
			"tls_cert", c.files.TLSCert, "from", own.NotBefore, "until", own.NotAfter)
	}
}

func (c *certificates) stamps() [3]stamp {
	return [3]stamp{stampOf(c.files.TLSCert), stampOf(c.files.TLSKey), stampOf(c.files.TLSCA)}
}

// current returns the certificates. It reads the files if one has changed, and again after a failure, whose reason may pass
// without a change, as too many open files. Files that are replaced one after the other do not fit for a moment.
func (c *certificates) current() holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.stamps()
	same := true
	for i := range now {
		same = same && now[i].same(c.seen[i])
	}
	if same && c.failed == "" {
		return c.held
	}
	c.seen = now
	held, err := c.read()
	if err != nil {
		if !same || err.Error() != c.failed {
			c.log.Warn("the certificates of before go on to be used", "error", err)
		}
		c.failed = err.Error()
		return c.held
	}
	c.failed = ""
	c.hold(held)
	return held
}

func (c *certificates) read() (holding, error) {
	pair, err := c.readPair()
	if err != nil {
		return holding{}, err
	}
	ca, err := readFile(c.files.TLSCA, anyMode)
	if err != nil {
		return holding{}, fmt.Errorf("tls_ca = %q: %w", c.files.TLSCA, err)
	}
	if err := checkWhole(ca); err != nil {
		return holding{}, fmt.Errorf("tls_ca = %q: %w", c.files.TLSCA, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return holding{}, fmt.Errorf("tls_ca = %q: it has no certificate in PEM: want those of the authorities", c.files.TLSCA)
	}
	return holding{cert: pair, roots: roots}, nil
}

// readPair reads the certificate and its key. One that has expired is no error: that of a peer is judged by that peer.
func (c *certificates) readPair() (tls.Certificate, error) {
	cert, err := readFile(c.files.TLSCert, anyMode)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls_cert = %q: %w", c.files.TLSCert, err)
	}
	if err := checkWhole(cert); err != nil {
		return tls.Certificate{}, fmt.Errorf("tls_cert = %q: %w", c.files.TLSCert, err)
	}
	key, err := readSecret(c.files.TLSKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls_key = %q: %w", c.files.TLSKey, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls_cert = %q, tls_key = %q: %w: want a certificate in PEM and the key of it",
			c.files.TLSCert, c.files.TLSKey, err)
	}
	if err := pair.Leaf.VerifyHostname(c.host); err != nil {
		return tls.Certificate{}, fmt.Errorf("tls_cert = %q: %w: want one for this host's name in the list, or set host to the name that it has",
			c.files.TLSCert, err)
	}
	return pair, nil
}

// checkWhole refuses a file that ends within a PEM block, because it is being written. The parsers would use the blocks before it,
// and refuse peers of the authorities after them.
func checkWhole(text []byte) error {
	rest := text
	for block, after := pem.Decode(rest); block != nil; block, after = pem.Decode(rest) {
		rest = after
	}
	if bytes.Contains(rest, []byte("-----BEGIN")) {
		return errors.New("it ends within a certificate: is it being written?")
	}
	return nil
}

func anyMode(fs.FileMode) error { return nil }

// withoutPath returns the error of a file without its name, which the option has.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
