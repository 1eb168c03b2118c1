package hello

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"reflect"
)

// The alerts by which a host says that it does not accept a certificate (RFC 8446, section 6.2).
const (
	alertBadCertificate         tls.AlertError = 42
	alertUnsupportedCertificate tls.AlertError = 43
	alertCertificateRevoked     tls.AlertError = 44
	alertCertificateExpired     tls.AlertError = 45
	alertCertificateUnknown     tls.AlertError = 46
	alertUnknownCA              tls.AlertError = 48
	alertAccessDenied           tls.AlertError = 49
	alertDecryptError           tls.AlertError = 51
	alertCertificateRequired    tls.AlertError = 116
)

// remoteAlert returns the alert that a peer has sent, if that is what an error is. Over TCP, crypto/tls has alerts as a type
// that it does not export, in a net.OpError; its numbers are those of tls.AlertError.
func remoteAlert(err error) (tls.AlertError, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Err == nil {
		return 0, false
	}
	if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
		return tls.AlertError(v.Uint()), true
	}
	return 0, false
}

// handshakeError returns what the error of a handshake means. It has no text of the peer.
func handshakeError(err error) error {
	if a, ok := remoteAlert(err); ok {
		switch a {
		case alertCertificateExpired:
			return fmt.Errorf("%w: it says that the own certificate is not valid now", ErrKey)
		case alertBadCertificate, alertUnsupportedCertificate, alertCertificateRevoked, alertCertificateUnknown, alertUnknownCA,
			alertAccessDenied, alertDecryptError, alertCertificateRequired:
			return fmt.Errorf("%w: it does not accept the own certificate", ErrKey)
		}
		return fmt.Errorf("greet by TLS: %w", err)
	}
	var verification *tls.CertificateVerificationError
	if errors.As(err, &verification) {
		return fmt.Errorf("%w: %s", ErrKey, unverified(verification.Err))
	}
	return fmt.Errorf("greet by TLS: %w", err)
}

// unverified says why a peer's certificate is not accepted.
func unverified(err error) string {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return "its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate is not valid now"
	}
	return "its certificate is not of an authority that is known here"
}
