package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"rdma_events/internal/verbs"
	"rdma_events/internal/worker/proto"
)

// errLate ends a session whose worker shook hands as its time was up.
var errLate = errors.New("the handshake came too late")

// session is the life of one worker process: start, handshake, stream, end. It
// runs in a goroutine of its own that ends when the process is gone and all
// that belonged to it is released; for a process that the kernel does not let
// go, that may be never.
type session struct {
	child   *child
	stderr  *stderrLog
	client  *plugin.Client
	limit   *limit
	batches chan verbs.Batch
	done    chan struct{}
	cancel  context.CancelFunc

	streaming atomic.Bool
	report    report // complete when done is closed

	mu     sync.Mutex
	dialed []*grpc.ClientConn
}

// sessionConfig is what a session is made of.
type sessionConfig struct {
	exe, ledger *os.File
	dir         string
	env         []string
	request     verbs.Request
	limit       time.Duration // for the start
	log         *slog.Logger
}

// startSession starts a worker and returns at once. It takes over c.ledger.
func startSession(c sessionConfig) (*session, error) {
	s, err := newSession(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.live(ctx, c.request)
	return s, nil
}

func newSession(c sessionConfig) (*session, error) {
	child, err := newChild(c.exe, c.ledger, c.request.Options.Device)
	if err != nil {
		return nil, err
	}
	s := &session{
		child:   child,
		stderr:  newStderrLog(c.log, time.Now),
		limit:   newLimit(c.limit, child.kill),
		batches: make(chan verbs.Batch),
		done:    make(chan struct{}),
	}
	child.born = s.limit.start
	s.report.Exe = c.exe.Name()
	s.client = s.newClient(c)
	return s, nil
}

// streamWindow is how many bytes a worker may send ahead of a host that is slow to
// read. Given a size, gRPC does not measure one: that is a ping and its answer for
// each batch, on a socket that has no bandwidth to find out.
const streamWindow = 1 << 20

func (s *session) newClient(c sessionConfig) *plugin.Client {
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  handshake(),
		Plugins:          plugin.PluginSet{pluginName: &border{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		// The session's own limit comes first; this one holds a lock meanwhile.
		StartTimeout:     2 * c.limit,
		Logger:           &pluginLog{log: c.log},
		Stderr:           s.stderr,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: c.dir},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithStreamInterceptor(s.remember),
			grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(streamWindow),
		},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			s.child.cmd.Env = slices.Concat(environment(os.Environ()), spec.Env, scenarioFile(c.request), c.env)
			return s.child, nil
		},
	})
}

// remember keeps the connection that a stream is made on. go-plugin forgets
// its connection, with the goroutines behind it, when the worker dies between
// the handshake and the first call.
func (s *session) remember(ctx context.Context, desc *grpc.StreamDesc, c *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s.mu.Lock()
	s.dialed = append(s.dialed, c)
	s.mu.Unlock()
	return open(ctx, desc, c, method, opts...)
}

func (s *session) live(ctx context.Context, r verbs.Request) {
	defer close(s.done)
	defer s.cancel()
	s.report.Err = s.stream(ctx, r)
	s.limit.stop()
	s.report.Late = s.limit.isLate()
	close(s.batches)
	s.child.discard()
	<-s.child.exited
	// The process is gone, so this joins go-plugin's goroutines and removes the
	// socket directory without waiting for anything.
	s.client.Kill()
	s.forget()
	s.child.close()
	s.stderr.flush()
	s.report.complete(s.child, s.stderr)
}

func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.dialed {
		_ = c.Close() // mostly closed already, which is its only error
	}
}

// stream runs from the fork to the end of the worker's stream.
func (s *session) stream(ctx context.Context, r verbs.Request) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	if s.limit.stop(); s.limit.isLate() {
		return errLate
	}
	s.report.Shook = true
	s.stderr.release()
	s.streaming.Store(true)
	in, err := c.Watch(ctx, requestToProto(r))
	if err != nil {
		return fmt.Errorf("ask the worker to watch: %w", err)
	}
	for {
		m, err := in.Recv()
		if err != nil {
			return fmt.Errorf("read from the worker: %w", err)
		}
		select {
		case s.batches <- batchFromProto(m):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *session) connect() (proto.WorkerClient, error) {
	c, err := s.client.Client()
	if err != nil {
		return nil, err // it is told with "cannot be started"
	}
	w, err := c.Dispense(pluginName)
	if err != nil {
		return nil, fmt.Errorf("connect to the worker: %w", err)
	}
	return w.(proto.WorkerClient), nil
}

// PID implements process.
func (s *session) PID() int {
	pid, _ := s.child.state()
	return pid
}

// Started implements process.
func (s *session) Started() <-chan struct{} { return s.limit.over }

// Batches implements process.
func (s *session) Batches() <-chan verbs.Batch { return s.batches }

// Done implements process.
func (s *session) Done() <-chan struct{} { return s.done }

// Report implements process.
func (s *session) Report() *report { return &s.report }

// Ask implements process. A worker that has not been told to watch yet holds
// nothing that it could close, and does not listen.
func (s *session) Ask() {
	s.cancel()
	if !s.streaming.Load() {
		s.child.kill()
	}
}

// Kill implements process.
func (s *session) Kill() {
	s.cancel()
	s.child.kill()
}
