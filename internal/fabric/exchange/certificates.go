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

// certificateFiles provides the certificates of the files tls_cert, tls_key and tls_ca, as of the last time when all three could be read.
type certificateFiles struct {
	host  string
	files Files
	now   func() time.Time
	log   *slog.Logger

	mu        sync.Mutex
	stamps    [3]stamp // of the files at the last check
	held      tlsIdentity
	lastError string // the error of the last attempt to read the files; "": it succeeded
}

// stamp identifies the state of a file.
type stamp struct {
	info fs.FileInfo // nil: the file does not exist
}

func readStamp(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

func (s stamp) equal(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return filestate.Same(s.info, o.info)
}

func openCertificates(host string, f Files, now func() time.Time, log *slog.Logger) (*certificateFiles, error) {
	c := &certificateFiles{host: host, files: f, now: now, log: log}
	c.stamps = c.readStamps()
	held, err := c.readAll()
	if err != nil {
		return nil, err
	}
	c.use(held)
	return c, nil
}

// use makes an identity the current one. It logs a warning if the certificate is not valid now, because peers will reject it.
func (c *certificateFiles) use(held tlsIdentity) {
	c.held = held
	own := held.cert.Leaf
	if at := c.now(); at.Before(own.NotBefore) || at.After(own.NotAfter) {
		c.log.Warn("certificate is not valid now: peers reject it until it is replaced",
			"tls_cert", c.files.TLSCert, "from", own.NotBefore, "until", own.NotAfter)
	}
}

func (c *certificateFiles) readStamps() [3]stamp {
	return [3]stamp{readStamp(c.files.TLSCert), readStamp(c.files.TLSKey), readStamp(c.files.TLSCA)}
}

// current returns the current identity. It reads the files if one of them has changed. It also reads them after a failure, because the cause may
// disappear without a change of a file (too many open files, for example). While files are being replaced one after the other, reading may fail.
func (c *certificateFiles) current() tlsIdentity {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.readStamps()
	same := true
	for i := range now {
		same = same && now[i].equal(c.stamps[i])
	}
	if same && c.lastError == "" {
		return c.held
	}
	c.stamps = now
	held, err := c.readAll()
	if err != nil {
		if !same || err.Error() != c.lastError {
			c.log.Warn("certificates not reloaded: the previous ones remain in use", "error", err)
		}
		c.lastError = err.Error()
		return c.held
	}
	c.lastError = ""
	c.use(held)
	return held
}

func (c *certificateFiles) readAll() (tlsIdentity, error) {
	pair, err := c.readPair()
	if err != nil {
		return tlsIdentity{}, err
	}
	ca, err := readFile(c.files.TLSCA, acceptAnyMode)
	if err != nil {
		return tlsIdentity{}, fmt.Errorf("tls_ca = %q: %w", c.files.TLSCA, err)
	}
	if err := checkComplete(ca); err != nil {
		return tlsIdentity{}, fmt.Errorf("tls_ca = %q: %w", c.files.TLSCA, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return tlsIdentity{}, fmt.Errorf("tls_ca = %q: it has no certificate in PEM: want those of the authorities", c.files.TLSCA)
	}
	return tlsIdentity{cert: pair, roots: roots}, nil
}

// readPair reads the certificate and its key. An expired certificate is not an error here; peers check the validity.
func (c *certificateFiles) readPair() (tls.Certificate, error) {
	cert, err := readFile(c.files.TLSCert, acceptAnyMode)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls_cert = %q: %w", c.files.TLSCert, err)
	}
	if err := checkComplete(cert); err != nil {
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

// checkComplete rejects a file that ends within a PEM block, because it is still being written. The parsers would use only the complete
// blocks, and peers of the missing authorities would be rejected.
func checkComplete(text []byte) error {
	rest := text
	for block, after := pem.Decode(rest); block != nil; block, after = pem.Decode(rest) {
		rest = after
	}
	if bytes.Contains(rest, []byte("-----BEGIN")) {
		return errors.New("it ends within a certificate: is it being written?")
	}
	return nil
}

func acceptAnyMode(fs.FileMode) error { return nil }

// withoutPath removes the file name from an error. The caller's message has the option and the name.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
