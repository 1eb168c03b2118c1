package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/status"
)

func TestCrashesAreThoseOfChildrenThatHadOpenedTheDevice(t *testing.T) {
	open := func(s script) script {
		return func(p *fakeProcess) {
			openOnly(p)
			s(p)
		}
	}
	for name, row := range map[string]struct {
		script script
		want   uint64
		soon   bool // supervision ends after a second
	}{
		"it dies":                    {script: open(crash), want: 1},
		"it hangs":                   {script: openOnly, want: 1},
		"it cannot go on":            {script: open(endWith(status.ReasonUnsupported)), want: 1},
		"the kernel holds it":        {script: func(p *fakeProcess) { p.set(false, true); openOnly(p) }, want: 1},
		"its device goes":            {script: open(endWith(status.ReasonRemoved))},
		"it is refused the device":   {script: endWith(status.ReasonNoPermission)},
		"it dies before it has it":   {script: crash},
		"it hangs before it has it":  {script: func(*fakeProcess) {}},
		"it ends when it is to":      {script: openOnly, soon: true},
		"it is killed at its end":    {script: func(p *fakeProcess) { p.set(true, false); openOnly(p) }, soon: true},
		"the kernel holds it at end": {script: func(p *fakeProcess) { p.set(true, true); openOnly(p) }, soon: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				if passTime(time.Second); !row.soon {
					passTime(20 * time.Minute)
				}
				b.cancel()
				<-b.over
				require.Equal(t, row.want, b.last().Crashes)
			}, row.script, runFor(time.Hour))
		})
	}
}
