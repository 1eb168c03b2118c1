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

// purpose separates this use of a key from others (RFC 5869, section 3.2). Another one is another authority.
const purpose = "rdma_events fabric 1"

// naming separates the use of a key for aliases.
const naming = "rdma_events fabric 1 host "

// authority is the name of the certificate authority that follows from a key.
const authority = "rdma_events fabric"

// issue derives the authority that all holders of a key have, and issues a certificate to this host, with a key of its own.
// Both are valid at any time from 1970 on: a host whose clock is wrong is one that a monitor has to see.
func issue(key []byte, host string) (holding, error) {
	root, signs, err := rootOf(key)
	if err != nil {
		return holding{}, err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return holding{}, fmt.Errorf("make a key for the certificate: %w", err)
	}
	leaf, err := sign(leafOf(alias(key, host)), root, public, signs)
	if err != nil {
		return holding{}, fmt.Errorf("issue a certificate to %s: %w", host, err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	return holding{cert: tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: private, Leaf: leaf}, roots: roots}, nil
}

// rootOf returns the authority of a key, and what it signs with.
func rootOf(key []byte) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, key, nil, purpose, ed25519.SeedSize)
	if err != nil {
		return nil, nil, fmt.Errorf("derive the authority: %w", err)
	}
	signs := ed25519.NewKeyFromSeed(seed)
	root, err := sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: authority},
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, signs.Public(), signs)
	if err != nil {
		return nil, nil, fmt.Errorf("make the authority: %w", err)
	}
	return root, signs, nil
}

// alias returns the name that a certificate has for a host. A server shows its certificate to whoever calls, before it knows
// who that is: strangers do not learn the names of hosts from this one. It also is a host name of DNS where that of a
// list may be an address, and differs where only the case of letters does.
func alias(key []byte, host string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(naming + host))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// leafOf returns the certificate of a name before it is signed.
func leafOf(name string) *x509.Certificate {
	return &x509.Certificate{
		DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
}

// sign signs a certificate with the key of its issuer, which is itself if parent is nil. The serial number is chosen at
// random where there is none.
func sign(c, parent *x509.Certificate, public any, key ed25519.PrivateKey) (*x509.Certificate, error) {
	c.NotBefore = time.Unix(0, 0)
	c.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // RFC 5280, section 4.1.2.5: it has no end
	if parent == nil {
		parent = c
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}
