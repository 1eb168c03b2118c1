package inventory

import (
	"context"
	"maps"
	"sync"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/wake"
	"rdma_events/internal/telemetry/measure"
)

// Keeper keeps a Picture of what the workers of all devices and the tracer see. Its methods may be called
// concurrently, and only Run blocks. Those about the tracer, Attached, Traced and TracerEnded, are called in the order in
// which it happened.
type Keeper struct {
	cfg    Config
	listed wake.Signal // holds a token when lists of objects wait
	ended  wake.Signal // holds a token when a tracer has ended

	mu      sync.Mutex
	picture *Picture
	waiting map[string]*listing // by device; the newest
}

// Config is what a Keeper needs.
type Config struct {
	Options
	// Process returns the process of a thread, false if there is none. Only AddLists and DropGone call it, and it may read files.
	Process func(thread int) (identity.Process, bool)
	Now     func() time.Time
	Mono    func() int64 // CLOCK_MONOTONIC ns
	// Emit takes each point of rdma_app_event when it happens. It must not block, nor call the Keeper.
	Emit func(measure.Point)
}

// goneInterval is how often Run looks whether processes are gone of which only a tracer knew that has ended.
const goneInterval = time.Minute

// listing has the lists of objects that a worker has sent.
type listing struct {
	at      time.Time
	objects *verbs.Objects
}

// NewKeeper returns a Keeper. An error is that of NewPicture.
func NewKeeper(c Config) (*Keeper, error) {
	p, err := NewPicture(c.Options)
	if err != nil {
		return nil, err
	}
	return &Keeper{cfg: c, listed: wake.New(), ended: wake.New(), picture: p, waiting: map[string]*listing{}}, nil
}

// See notes what a worker has seen of a device. Run puts it into the picture.
func (k *Keeper) See(device string, o *verbs.Objects) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting[device] = &listing{k.cfg.Now(), o.Clone()}
	k.listed.Send()
}

// Forget forgets a device that is gone.
func (k *Keeper) Forget(device string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, device)
	k.picture.Forget(device)
}

// Attached handles a tracer that begins to see events. It counts from 0.
func (k *Keeper) Attached(a *trace.Attached) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.Attach(a, k.moment(), k.cfg.Emit)
}

// Traced handles what the attached tracer has seen in a second, and emits a point for each event of it. It does not keep s.
func (k *Keeper) Traced(s *trace.Update) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.Trace(s, k.moment(), k.cfg.Emit)
}

// TracerEnded handles the end of a tracer. It may be one that was never attached.
func (k *Keeper) TracerEnded() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.Detach(k.moment(), k.cfg.Emit)
	k.ended.Send()
}

func (k *Keeper) moment() Moment { return Moment{Wall: k.cfg.Now(), Mono: k.cfg.Mono()} }

// Run finds out whose the threads are, and which processes are gone, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(goneInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.listed:
			k.AddLists()
		case <-k.ended:
			k.DropGone()
		case <-tick.C:
			k.DropGone()
		}
	}
}

// AddLists finds out whose the threads are in the lists that wait, and puts these into the picture. Run calls it, and so may a
// caller without Run.
func (k *Keeper) AddLists() {
	k.mu.Lock()
	waiting := maps.Clone(k.waiting)
	k.mu.Unlock()
	for device, l := range waiting {
		look := NewLook(device, l.at, l.objects, k.cfg.Process)
		k.mu.Lock()
		if k.waiting[device] == l { // the device is not gone, and no newer lists came
			delete(k.waiting, device)
			k.picture.Add(look)
		}
		k.mu.Unlock()
	}
}

// DropGone finds out which processes are gone without a tracer to see it. Run calls it, and so may a caller without Run.
func (k *Keeper) DropGone() {
	k.mu.Lock()
	ids := k.picture.Carried()
	k.mu.Unlock()
	gone := ids[:0]
	for _, id := range ids {
		if who, ok := k.cfg.Process(id.PID); !ok || who.ID() != id.ID {
			gone = append(gone, id)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.Gone(gone, k.cfg.Now())
}

// Points returns the points of an interval: those of rdma_app, see Picture.Points, and if there is a tracer those of
// rdma_app_async, rdma_app_hang and rdma_tracer, which cover the time since the call before. w is how the tracer's process
// does.
func (k *Keeper) Points(at time.Time, w Worker) []measure.Point {
	k.mu.Lock()
	defer k.mu.Unlock()
	var points []measure.Point
	for _, p := range k.picture.Points(at) {
		points = append(points, p)
	}
	return append(points, k.picture.Events(&Moment{Wall: at, Mono: k.cfg.Mono()}, &w)...)
}

// Host returns the sums over all applications for measure.Host, nil if there is no tracer.
func (k *Keeper) Host() *measure.HostApps {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.picture.Host()
}
