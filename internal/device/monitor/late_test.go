package monitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/cause"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

func TestEventBehindAHeldUpQueryIsLate(t *testing.T) {
	h, sup, led := startWithOpenDevice(t, withEvidence)
	late := func(at int64) int64 {
		h.mono.Store(at)
		h.batch(sup, eventItem(verbs.EventLIDChange, 1, 1, at, at))
		return pointsOf[measure.Event](h.sink.takePoints())[0].LateNS
	}
	answered := func(mono, took int64, err string) {
		h.batch(sup, verbs.Item{Reading: &verbs.Reading{Port: 1, Mono: mono, Took: took, Err: err, Attr: verbs.PortAttr{State: verbs.PortActive}}})
	}
	answered(10*sec, ms, "")
	require.Zero(t, late(10*sec+5*ms))

	led.SetControlCall(ledger.ThreadCall{Call: ledger.CallQueryPort, Port: 1, Since: 20 * sec})
	require.Zero(t, late(20*sec+500*ms), "half a second is no hold-up")
	require.Equal(t, 12*sec, late(32*sec), "the query is still under way")
	led.SetControlCall(ledger.ThreadCall{Since: 32 * sec})
	answered(20*sec, 12*sec, "ETIMEDOUT")
	require.Equal(t, 12*sec+100*ms, late(32*sec+100*ms))
	h.batch(sup, eventItem(verbs.EventGIDChange, 1, 1, 32*sec+100*ms, 32*sec+100*ms))
	require.Zero(t, pointsOf[measure.Event](h.sink.takePoints())[0].LateNS, "it waits for no query")
	answered(35*sec, 4*sec, "")
	require.Equal(t, 19*sec, late(39*sec), "in between nothing was asked")
	require.Zero(t, late(41*sec), "the device answers again")
}

func TestLateEventHasNoCauseOfItsLink(t *testing.T) {
	h, sup, _ := startWithOpenDevice(t, withEvidence)
	h.mono.Store(sec)
	h.batch(sup, ethernetReading(0))
	slow := ethernetReading(sec)
	slow.Reading.Took = 2 * sec // and its event is passed on when it ends
	h.mono.Store(3 * sec)
	h.batch(sup, slow, eventItem(verbs.EventPortErr, 1, 1, 3*sec, 3*sec), snapshotItem(netDev(countersSnapshot("port_err", 3*sec, 1, 1), false, false)))
	require.Equal(t, 2*sec, pointsOf[measure.Event](h.sink.takePoints())[0].LateNS)
	require.NotEqual(t, cause.AdminDown, h.passJudgeDelay(sup)[0].Cause, "the network device may have been set down since")
}
