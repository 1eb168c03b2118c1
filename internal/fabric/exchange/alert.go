package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"reflect"
)

// The TLS alerts by which a host rejects a certificate (RFC 8446, section 6.2).
const (
	badCertificate         = 42
	unsupportedCertificate = 43
	certificateRevoked     = 44
	certificateExpired     = 45
	certificateUnknown     = 46
	unknownCA              = 48
	accessDenied           = 49
	decryptError           = 51
	certificateRequired    = 116
)

// remoteAlert returns the TLS alert in an error, if the peer has sent one. For connections over TCP, crypto/tls returns an alert as an
// unexported type in a net.OpError.
func remoteAlert(err error) (number uint8, ok bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Err == nil {
		return 0, false
	}
	if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
		return uint8(v.Uint()), true
	}
	return 0, false
}

// handshakeError returns the meaning of an error in a handshake with a host. The returned error contains no text of the peer.
func (c *Credentials) handshakeError(err error) error {
	if a, ok := remoteAlert(err); ok {
		switch a {
		case certificateExpired:
			return fmt.Errorf("%w: it says that the own certificate is not valid now", ErrKey)
		case badCertificate, unsupportedCertificate, certificateRevoked, certificateUnknown, unknownCA, accessDenied,
			decryptError, certificateRequired:
			return fmt.Errorf("%w: it does not accept the own certificate", ErrKey)
		}
		return fmt.Errorf("greet by TLS: %w", err)
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return fmt.Errorf("%w: %s", ErrKey, c.describeUnverified(verification))
	}
	return fmt.Errorf("greet by TLS: %w", err)
}

// describeUnverified describes why a host's certificate is rejected. crypto/x509 checks the name first, and a certificate of another key
// always has another name, so describeUnverified verifies the chain before it blames the name.
func (c *Credentials) describeUnverified(v *tls.CertificateVerificationError) string {
	var name x509.HostnameError
	err := v.Err
	if errors.As(err, &name) {
		if err = c.verifyChain(v.UnverifiedCertificates); err == nil {
			return "its certificate is for another name"
		}
	}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return "its certificate is not valid now"
	}
	return "its certificate is not of an authority that is known here"
}
