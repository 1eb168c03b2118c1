package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
)

// wide is a backend whose devices have as many completion vectors as a large host has processors. Its probes take slots of the
// ledger as the probes of package native do.
type wide struct {
	verbs.Backend
	vectors int
}

func (b wide) Open(name string, led *ledger.Ledger) (verbs.Device, error) {
	d, err := b.Backend.Open(name, led)
	return wideDevice{d, led, b.vectors}, err
}

type wideDevice struct {
	verbs.Device
	led     *ledger.Ledger
	vectors int
}

func (d wideDevice) Attr() verbs.DeviceAttr {
	a := d.Device.Attr()
	a.Vectors, a.CountsFlushes = d.vectors, false // without a counter of flushes, flush serves while the link is down
	return a
}

func (d wideDevice) NewProbe(c verbs.ProbeConfig) (verbs.Probe, error) {
	vector, most := c.Vector, d.Device.Attr().Vectors
	c.Vector %= most
	p, err := d.Device.NewProbe(c)
	if err != nil {
		return nil, err
	}
	if _, err := d.led.AddProbe(c.Port, vector, int(c.Method)); err != nil {
		return nil, errors.Join(verbs.ErrLimit, err, p.Close(time.Second))
	}
	return p, nil
}

// Each vector of both ports has had flush and another method by then.
func TestAllVectorsHaveTheirProbesAgainAfterALinkWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "dual", "[[link]]\nat = \"0s\"\ndown_for = \"20s\"\n")
		r.Options.Probe.Vectors = []int{-1}
		r.Wrap = func(b verbs.Backend) verbs.Backend { return wide{b, 256} }
		r.Start(nil)
		last := map[verbs.ProbeKey]verbs.Method{}
		for _, it := range r.After(5 * time.Minute) {
			if it.Probe != nil {
				last[verbs.ProbeKey{Port: it.Probe.Port, Vector: it.Probe.Vector}] = it.Probe.Method
			}
		}
		methods := map[verbs.Method]int{}
		for _, m := range last {
			methods[m]++
		}
		require.Equal(t, map[verbs.Method]int{verbs.MethodRCWrite: 256, verbs.MethodUDSend: 256}, methods)
	})
}
