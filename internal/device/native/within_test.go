//go:build linux && cgo

package native

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestCloseReturnsItsErrorWheneverItEnds(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		timeout, takes time.Duration
		resolving      bool
		want           error
		after          time.Duration
	}{
		"at once":                                {time.Second, 0, false, failed, 0},
		"before the grace ends":                  {time.Second, resolveDelay / 2, true, failed, resolveDelay / 2},
		"after the grace":                        {time.Second, 5 * resolveDelay, false, failed, 5 * resolveDelay},
		"not in time":                            {time.Second, time.Minute, false, verbs.ErrStuck, time.Second},
		"not in a time that is shorter":          {resolveDelay / 2, time.Minute, true, verbs.ErrStuck, resolveDelay / 2},
		"not while an address is being resolved": {time.Second, time.Minute, true, verbs.ErrResolving, resolveDelay},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := runUnlessResolving(func() bool { return c.resolving }, c.timeout, func() error {
					time.Sleep(c.takes)
					return failed
				})
				require.Equal(t, c.want, err)
				require.Equal(t, c.after, time.Since(began))
				time.Sleep(c.takes) // so that what was left behind ends
			})
		})
	}
}
