package tracer

import (
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer/proto"
	"rdma_events/internal/sys/confine"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/sys/sanitize"
	"rdma_events/internal/sys/status"
)

// ServeConfig has the parts of a tracer program. The program is executed twice (process.ServeConfig): Prepare is of the
// first start, Open of the second.
type ServeConfig struct {
	// Prepare attaches to the kernel, as the settings say, with all privileges that the program has. It is not called
	// without Settings.Hooks. What it opens goes on in the second start by descriptors that are not closed by exec. An error
	// of package trace says why it cannot; the tracer then goes on without, and its host hears why.
	Prepare func(Settings) (Prepared, error)
	// Open makes the source that a request names, of what Prepare has left. It is called once, after the handshake, in a
	// process that has given up everything but the files that the settings name. It is not called if Prepare failed. An error
	// of package trace says why there is no source.
	Open func(r trace.Request, prepared string) (trace.Source, error)
}

// Prepared is what the first start leaves to the second, beside descriptors.
type Prepared struct {
	Text string // for Open, as the numbers of the descriptors; at most 64 KiB
	// KeepBPF keeps CAP_BPF. Kernels before about 5.19 refuse lookups in maps to a process without, unless
	// kernel.unprivileged_bpf_disabled is 0. What the process can do with it is in commands.
	KeepBPF bool
}

// Serve is the tracer program: it is process.Serve with this contract.
func Serve(c ServeConfig) int {
	return process.Serve(process.ServeConfig{
		Handshake: handshake(),
		ByHand:    ProgramName + " is started by rdma-events, one on each host; it is not to be started by hand",
		Thread:    "rdma-ev-tracer",
		Prepare:   c.prepare,
		Needs:     needs,
		Make:      c.service,
	})
}

// prepare leaves to the second start what Prepare has made of the settings.
func (c ServeConfig) prepare() error {
	s, err := settings()
	if err != nil {
		return err
	}
	if s.Hooks == "" {
		return forward{}.leave()
	}
	p, err := c.Prepare(s)
	if err != nil {
		why := EndOf(err)
		return forward{Refused: why.Reason, Message: sanitize.Text(why.Message, longestReason, ' ')}.leave()
	}
	return forward{Text: p.Text, KeepBPF: p.KeepBPF}.leave()
}

// needs returns what a tracer keeps.
func needs() (confine.Needs, error) {
	s, err := settings()
	if err != nil {
		return confine.Needs{}, err
	}
	f, err := readForward()
	if err != nil {
		return confine.Needs{}, err
	}
	n := confine.Needs{Read: s.Reads, Seal: &confine.Seal{BPF: commands()}}
	if f.KeepBPF {
		n.Keep = []uintptr{unix.CAP_BPF}
	}
	return n, nil
}

// commands returns the commands of bpf(2) that a tracer keeps: it reads maps and deletes in them, and reads iterators.
func commands() []uint32 {
	return []uint32{
		unix.BPF_MAP_LOOKUP_ELEM, unix.BPF_MAP_LOOKUP_BATCH,
		unix.BPF_MAP_DELETE_ELEM, unix.BPF_MAP_DELETE_BATCH,
		unix.BPF_MAP_LOOKUP_AND_DELETE_ELEM, unix.BPF_MAP_LOOKUP_AND_DELETE_BATCH,
		unix.BPF_OBJ_GET_INFO_BY_FD, unix.BPF_ITER_CREATE,
	}
}

func settings() (Settings, error) { return parseSettings(os.Getenv(settingsKey)) }

func (c ServeConfig) service(in process.Inherited) (register func(grpc.ServiceRegistrar), err error) {
	f, err := takeForward()
	if err != nil {
		return nil, err
	}
	s := &service{end: in.End, open: func(r trace.Request) (trace.Source, error) { return c.Open(r, f.Text) }}
	if f.Refused != "" {
		s.refused = &status.End{Reason: f.Refused, Message: f.Message}
	}
	return func(r grpc.ServiceRegistrar) { proto.RegisterTracerServer(r, s) }, nil
}
