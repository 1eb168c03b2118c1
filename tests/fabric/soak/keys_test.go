package soak

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues certificates that are valid for some hours around the soak.
type authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

// validFor is how long before the soak a certificate begins to be valid. It ends so long after the longest soak.
const (
	validFor = time.Hour
	longest  = 12 * time.Hour
)

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	var err error
	_, a.key, err = ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	a.cert = a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "soak"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key.Public())
	return a
}

func (a *authority) sign(t *testing.T, c *x509.Certificate, public any) *x509.Certificate {
	var err error
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	c.NotBefore, c.NotAfter = time.Now().Add(-validFor), time.Now().Add(longest)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, public, a.key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	return cert
}

// issue writes the files of a host: its certificate, its key and the authority.
func (a *authority) issue(t *testing.T, host string, cert, key, ca string) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	own := a.sign(t, &x509.Certificate{
		DNSNames: []string{host}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, public)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	replaceFile(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Raw}))
	replaceFile(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	replaceFile(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// replaceFile writes a new file and renames it, so that no reader finds a half-written file.
func replaceFile(t *testing.T, path string, content []byte) {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	require.NoError(t, os.WriteFile(next, content, 0o600))
	require.NoError(t, os.Rename(next, path))
}
