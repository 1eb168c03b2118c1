// Package wake lets goroutines wake a goroutine that waits in a select statement.
package wake

// Signal is a channel from which the goroutine to be woken receives. It holds at most one token: several calls of Send before
// the next receive cause only one wake-up.
type Signal chan struct{}

// New returns a Signal without a token.
func New() Signal { return make(Signal, 1) }

// Send wakes the receiver, now or at its next receive. It does not block.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
