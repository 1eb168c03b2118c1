package accumulator

import (
	"sync"
	"time"

	"github.com/influxdata/telegraf/testutil"
)

// Blocked is an accumulator whose AddFields blocks until Open is called, like that of
// Telegraf's shim while its channel has no reader. All methods may be called concurrently.
type Blocked struct {
	testutil.Accumulator

	gate chan struct{} // closed: AddFields does not block
	once sync.Once
}

// NewBlocked returns a Blocked. Within a synctest bubble it belongs to the bubble.
func NewBlocked() *Blocked { return &Blocked{gate: make(chan struct{})} }

// Open ends all blocking, now and later.
func (b *Blocked) Open() { b.once.Do(func() { close(b.gate) }) }

// AddFields implements telegraf.Accumulator.
func (b *Blocked) AddFields(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	<-b.gate
	b.Accumulator.AddFields(name, fields, tags, t...)
}
