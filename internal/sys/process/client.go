package process

import (
	"context"
	"errors"
	"fmt"
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
)

// errLate ends a client whose child completed the handshake just as its time was up.
var errLate = errors.New("the handshake came too late")

// client is the host's side of one process: start, handshake, stream, end. It runs in a
// goroutine of its own, which ends when the process is gone and all its resources are
// released. For a process that the kernel does not release, that may be never.
type client[M any] struct {
	attempt  Attempt[M]
	deliver  func(M) error // called by the goroutine of the stream
	child    *child
	stderr   *stderrLog
	plugin   *plugin.Client
	limit    *limit
	streamed chan struct{}
	done     chan struct{}
	cancel   context.CancelFunc

	streaming atomic.Bool
	report    report // complete when done is closed

	mu     sync.Mutex
	dialed []*grpc.ClientConn
}

// startClient starts a process and returns at once. It takes over shared.
func startClient[M any](s *Spec, dir string, a Attempt[M], shared []*os.File, deliver func(M) error) (*client[M], error) {
	c, err := newClient(s, dir, a, shared, deliver)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go func() {
		defer cancel()
		c.run(ctx)
	}()
	return c, nil
}

func newClient[M any](s *Spec, dir string, a Attempt[M], shared []*os.File, deliver func(M) error) (*client[M], error) {
	child, err := newChild(s, shared)
	if err != nil {
		return nil, err
	}
	c := &client[M]{
		attempt:  a,
		deliver:  deliver,
		child:    child,
		stderr:   newStderrLog(s.Log, s.Name, time.Now),
		limit:    newLimit(s.Timing.Start, child.kill),
		streamed: make(chan struct{}),
		done:     make(chan struct{}),
	}
	c.limit.more = s.Timing.Load
	child.born, child.tap.step = c.limit.start, c.limit.report
	c.report.Exe = s.Exe.Name()
	c.plugin = c.newPlugin(s, dir)
	return c, nil
}

// streamWindow is how many bytes a child may send before its host reads them. With a
// given size gRPC does not measure the bandwidth. That would take a ping and its answer
// for each message, on a socket that has no bandwidth to measure.
const streamWindow = 1 << 20

func (c *client[M]) newPlugin(s *Spec, dir string) *plugin.Client {
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  s.Handshake.config(),
		Plugins:          plugin.PluginSet{pluginName: &contractPlugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		// The client's own limit ends earlier than this one, which holds a lock
		// meanwhile.
		StartTimeout:     2 * (s.Timing.Start + s.Timing.Load),
		Logger:           &pluginLog{log: s.Log},
		Stderr:           c.stderr,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithStreamInterceptor(c.remember),
			grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(streamWindow),
		},
		RunnerFunc: func(_ hclog.Logger, own *exec.Cmd, _ string) (runner.Runner, error) {
			c.child.cmd.Env = slices.Concat(own.Env, s.Env)
			return c.child, nil
		},
	})
}

// remember records the connection of a stream. go-plugin forgets its connection, and the
// goroutines of the connection, when the child dies between the handshake and the first
// call.
func (c *client[M]) remember(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.mu.Lock()
	c.dialed = append(c.dialed, conn)
	c.mu.Unlock()
	return open(ctx, desc, conn, method, opts...)
}

func (c *client[M]) run(ctx context.Context) {
	defer close(c.done)
	c.report.Err = c.stream(ctx)
	c.limit.stop()
	c.report.Late, c.report.Step = c.limit.isLate(), c.limit.current()
	close(c.streamed)
	c.child.discard()
	<-c.child.exited
	// The process is gone, so this joins go-plugin's goroutines and removes the socket
	// directory without waiting for anything.
	c.plugin.Kill()
	c.closeConnections()
	c.child.close()
	c.stderr.flush()
	c.report.complete(c.child, c.stderr)
}

// closeConnections closes the connections that remember has recorded.
func (c *client[M]) closeConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.dialed {
		_ = conn.Close() // the only error is that it is closed already, which is usual
	}
}

// stream starts the child, and returns at the end of its stream.
func (c *client[M]) stream(ctx context.Context) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	if c.limit.stop(); c.limit.isLate() {
		return errLate
	}
	c.report.Shook = true
	c.stderr.release()
	c.streaming.Store(true)
	return c.attempt.Stream(ctx, conn, c.deliver)
}

func (c *client[M]) connect() (*grpc.ClientConn, error) {
	p, err := c.plugin.Client()
	if err != nil {
		return nil, err // it is reported with "cannot be started"
	}
	conn, err := p.Dispense(pluginName)
	if err != nil {
		return nil, fmt.Errorf("connect to the child: %w", err)
	}
	return conn.(*grpc.ClientConn), nil
}

// PID implements instance.
func (c *client[M]) PID() int {
	pid, _ := c.child.state()
	return pid
}

// Started implements instance.
func (c *client[M]) Started() <-chan struct{} { return c.limit.over }

// Slow implements instance.
func (c *client[M]) Slow() <-chan struct{} { return c.limit.slow }

// Step implements instance.
func (c *client[M]) Step() string { return c.limit.current() }

// Streamed implements instance.
func (c *client[M]) Streamed() <-chan struct{} { return c.streamed }

// Done implements instance.
func (c *client[M]) Done() <-chan struct{} { return c.done }

// Report implements instance.
func (c *client[M]) Report() *report { return &c.report }

// Ask implements instance. It kills a child whose stream was not requested yet: such a
// child holds nothing that it could close, and does not listen.
func (c *client[M]) Ask() {
	c.cancel()
	if !c.streaming.Load() {
		c.child.kill()
	}
}

// Kill implements instance.
func (c *client[M]) Kill() {
	c.cancel()
	c.child.kill()
}
