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

// ServeConfig has the parts of a tracer program. The program is executed twice (process.ServeConfig): the first execution calls Prepare,
// the second one calls Open.
type ServeConfig struct {
	// Prepare attaches to the kernel as the settings say, with all privileges of the program. It is not called if Settings.Hooks is
	// empty. The second execution inherits its descriptors that are not closed on exec. If Prepare returns an error of package trace,
	// the program continues and reports the error to the host.
	Prepare func(Settings) (Prepared, error)
	// Open opens the source for a request, using the result of Prepare. It is called once, after the handshake, in a process that has
	// given up access to everything except the files in the settings. It is not called if Prepare failed. It returns an error of
	// package trace if there is no source.
	Open func(r trace.Request, prepared string) (trace.Source, error)
}

// Prepared is the data, apart from descriptors, that the first execution passes to the second.
type Prepared struct {
	Text string // passed to Open, for example the numbers of descriptors; at most 64 KiB
	// KeepBPF makes the process keep CAP_BPF. Kernels before about 5.19 require it for map lookups unless kernel.unprivileged_bpf_disabled is 0.
	// bpfCommands lists the commands that the process may still use.
	KeepBPF bool
}

// Serve runs the tracer program and returns its exit code. It is process.Serve with this contract.
func Serve(c ServeConfig) int {
	return process.Serve(process.ServeConfig{
		Handshake: contractHandshake(),
		ByHand:    ProgramName + " is started by rdma-events, one on each host; it is not to be started by hand",
		Thread:    "rdma-ev-tracer",
		Prepare:   c.prepare,
		Needs:     neededRights,
		Make:      c.service,
	})
}

// prepare calls Prepare with the settings and stores the result for the second execution.
func (c ServeConfig) prepare() error {
	s, err := inheritedSettings()
	if err != nil {
		return err
	}
	if s.Hooks == "" {
		return forward{}.store()
	}
	p, err := c.Prepare(s)
	if err != nil {
		why := EndOf(err)
		return forward{Refused: why.Reason, Message: sanitize.Text(why.Message, maxReason, ' ')}.store()
	}
	return forward{Text: p.Text, KeepBPF: p.KeepBPF}.store()
}

// neededRights returns the rights that a tracer keeps.
func neededRights() (confine.Needs, error) {
	s, err := inheritedSettings()
	if err != nil {
		return confine.Needs{}, err
	}
	f, err := readForward()
	if err != nil {
		return confine.Needs{}, err
	}
	n := confine.Needs{Read: s.Reads, Seal: &confine.Seal{BPF: bpfCommands()}}
	if f.KeepBPF {
		n.Keep = []uintptr{unix.CAP_BPF}
	}
	return n, nil
}

// bpfCommands returns the commands of bpf(2) that a tracer may use. It reads maps, deletes entries in them, and reads iterators.
func bpfCommands() []uint32 {
	return []uint32{
		unix.BPF_MAP_LOOKUP_ELEM, unix.BPF_MAP_LOOKUP_BATCH,
		unix.BPF_MAP_DELETE_ELEM, unix.BPF_MAP_DELETE_BATCH,
		unix.BPF_MAP_LOOKUP_AND_DELETE_ELEM, unix.BPF_MAP_LOOKUP_AND_DELETE_BATCH,
		unix.BPF_OBJ_GET_INFO_BY_FD, unix.BPF_ITER_CREATE,
	}
}

func inheritedSettings() (Settings, error) { return parseSettings(os.Getenv(settingsKey)) }

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
