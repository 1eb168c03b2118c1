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

// Keeper maintains a Picture with the data of all workers and the tracer. Its methods may be called concurrently, and only Run blocks.
// HandleAttached, HandleUpdate and HandleTracerEnd must be called in the order in which the tracer's events happened.
type Keeper struct {
	cfg         Config
	listed      wake.Signal // holds a token when lists of objects are pending
	tracerEnded wake.Signal // holds a token when a tracer has ended

	mu      sync.Mutex
	picture *Picture
	pending map[string]*pendingLists // the newest lists by device
}

// Config is the configuration of a Keeper.
type Config struct {
	Options
	// Process returns the process of a thread, or false if there is none. It may read files. Only AddLists and RemoveGone call it.
	Process func(thread int) (identity.Process, bool)
	Now     func() time.Time
	Mono    func() int64 // CLOCK_MONOTONIC ns
	// Emit receives each point of rdma_app_event when it happens. It must not block and must not call the Keeper.
	Emit func(measure.Point)
}

// goneInterval is the interval at which Run checks whether processes have ended that only an ended tracer knew.
const goneInterval = time.Minute

// pendingLists has the lists of objects that a worker has sent.
type pendingLists struct {
	at      time.Time
	objects *verbs.Objects
}

// NewKeeper returns a Keeper. Its errors are those of NewPicture.
func NewKeeper(c Config) (*Keeper, error) {
	p, err := NewPicture(c.Options)
	if err != nil {
		return nil, err
	}
	return &Keeper{cfg: c, listed: wake.New(), tracerEnded: wake.New(), picture: p, pending: map[string]*pendingLists{}}, nil
}

// AddObjects stores the lists that a worker has sent for a device. Run adds them to the Picture later.
func (k *Keeper) AddObjects(device string, o *verbs.Objects) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending[device] = &pendingLists{k.cfg.Now(), o.Clone()}
	k.listed.Send()
}

// RemoveDevice removes the objects of a device that was removed.
func (k *Keeper) RemoveDevice(device string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pending, device)
	k.picture.RemoveDevice(device)
}

// HandleAttached handles the start of a tracer, whose counts begin at 0.
func (k *Keeper) HandleAttached(a *trace.Attached) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.Attach(a, k.now(), k.cfg.Emit)
}

// HandleUpdate handles the tracer's changes of a second and emits a point for each event. It does not keep s.
func (k *Keeper) HandleUpdate(s *trace.Update) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.Trace(s, k.now(), k.cfg.Emit)
}

// HandleTracerEnd handles the end of a tracer, even if it never attached.
func (k *Keeper) HandleTracerEnd() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.Detach(k.now(), k.cfg.Emit)
	k.tracerEnded.Send()
}

func (k *Keeper) now() Moment { return Moment{Wall: k.cfg.Now(), Mono: k.cfg.Mono()} }

// Run looks up the processes of threads in pending lists, and checks which processes have ended, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(goneInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.listed:
			k.AddLists()
		case <-k.tracerEnded:
			k.RemoveGone()
		case <-tick.C:
			k.RemoveGone()
		}
	}
}

// AddLists looks up the processes of threads in pending lists and adds the lists to the Picture. Run calls it. Callers that do not use Run
// may call it themselves.
func (k *Keeper) AddLists() {
	k.mu.Lock()
	waiting := maps.Clone(k.pending)
	k.mu.Unlock()
	for device, l := range waiting {
		look := NewListing(device, l.at, l.objects, k.cfg.Process)
		k.mu.Lock()
		if k.pending[device] == l { // the device still exists, and no newer lists have arrived
			delete(k.pending, device)
			k.picture.AddListing(look)
		}
		k.mu.Unlock()
	}
}

// RemoveGone checks which processes have ended while no tracer was running, and removes them. Run calls it. Callers that do not use Run may
// call it themselves.
func (k *Keeper) RemoveGone() {
	k.mu.Lock()
	ids := k.picture.CarriedProcesses()
	k.mu.Unlock()
	gone := ids[:0]
	for _, id := range ids {
		if who, ok := k.cfg.Process(id.PID); !ok || who.ID() != id.ID {
			gone = append(gone, id)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.picture.RemoveProcesses(gone, k.cfg.Now())
}

// Points returns the points of an interval. These are the points of rdma_app (see Picture.Points) and, if there is a tracer, those of
// rdma_app_async, rdma_app_hang and rdma_tracer, which cover the time since the previous call. w describes the tracer's process.
func (k *Keeper) Points(at time.Time, w Worker) []measure.Point {
	k.mu.Lock()
	defer k.mu.Unlock()
	var points []measure.Point
	for _, p := range k.picture.Points(at) {
		points = append(points, p)
	}
	return append(points, k.picture.Events(&Moment{Wall: at, Mono: k.cfg.Mono()}, &w)...)
}

// Host returns the sums over all applications for measure.Host, or nil if there is no tracer.
func (k *Keeper) Host() *measure.HostApps {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.picture.Host()
}
