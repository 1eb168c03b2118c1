package exchange

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
)

// authorityPurpose separates this use of a key from others (RFC 5869, section 3.2). Another value leads to another authority.
const authorityPurpose = "rdma_events fabric 1"

// aliasPurpose separates the use of a key for aliases from others.
const aliasPurpose = "rdma_events fabric 1 host "

// authority is the name of the certificate authority that is derived from a key.
const authority = "rdma_events fabric"

// issueIdentity derives the authority that all holders of a key share, and issues a certificate with a new private key to this host. Both
// certificates are valid at any time from 1970 on, because a host with a wrong clock has to be monitored too.
func issueIdentity(key []byte, host string) (tlsIdentity, error) {
	root, signs, err := deriveAuthority(key)
	if err != nil {
		return tlsIdentity{}, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tlsIdentity{}, fmt.Errorf("make a key for the certificate: %w", err)
	}
	leaf, err := signCertificate(leafTemplate(hostAlias(key, host)), root, public, signs)
	if err != nil {
		return tlsIdentity{}, fmt.Errorf("issue a certificate to %s: %w", host, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return tlsIdentity{cert: tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: private, Leaf: leaf}, roots: roots}, nil
}

// deriveAuthority derives the certificate and the private key of the authority from a key.
func deriveAuthority(key []byte) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, key, nil, authorityPurpose, ed25519.SeedSize)
	if err != nil {
		return nil, nil, fmt.Errorf("derive the authority: %w", err)
	}
	signs := ed25519.NewKeyFromSeed(seed)
	root, err := signCertificate(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: authority},
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, signs.Public(), signs)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority: %w", err)
	}
	return root, signs, nil
}

// hostAlias returns the name that stands for a host in its certificate. A server shows its certificate to every caller before it knows the
// caller; the alias hides the names of hosts from strangers. In addition, an alias is a valid DNS name even if the list has an address as a
// name, and names that differ only in case have different aliases.
func hostAlias(key []byte, host string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(aliasPurpose + host))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// leafTemplate returns the unsigned certificate for a name.
func leafTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

// signCertificate signs a certificate with the key of its issuer. If parent is nil, the certificate is self-signed. If c has no serial
// number, a random one is chosen.
func signCertificate(c, parent *x509.Certificate, public any, key ed25519.PrivateKey) (*x509.Certificate, error) {
	c.NotBefore = time.Unix(0, 0)
	c.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // no expiration (RFC 5280, section 4.1.2.5)
	if parent == nil {
		parent = c
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}
