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

// errLate is the error if the child completed the handshake when its time was already up.
var errLate = errors.New("the handshake came too late")

// client is the host's side of one process: start, handshake, stream and end. It has its own
// goroutine, which ends when the process has ended and all resources are released. If the
// kernel does not release the process, that may be never.
type client[M any] struct {
	attempt  Attempt[M]
	deliver  func(M) error // called by the goroutine of the stream
	child    *child
	stderr   *stderrLog
	plugin   *plugin.Client
	limit    *limit
	streamed chan struct{} // closed when the stream has ended
	done     chan struct{} // closed when the process has ended and all resources are released
	cancel   context.CancelFunc

	streaming atomic.Bool
	report    report // complete when done is closed

	mu     sync.Mutex
	dialed []*grpc.ClientConn
}

// startClient starts a process and returns immediately. It takes ownership of shared.
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
	child.onFork, child.tap.step = c.limit.start, c.limit.report
	c.report.Exe = s.Exe.Name()
	c.plugin = c.newPlugin(s, dir)
	return c, nil
}

// streamWindow is the number of bytes that a child may send before its host reads them. A
// fixed size keeps gRPC from measuring the bandwidth, which takes a ping and an answer for
// each message and is useless on a Unix socket.
const streamWindow = 1 << 20

func (c *client[M]) newPlugin(s *Spec, dir string) *plugin.Client {
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  s.Handshake.config(),
		Plugins:          plugin.PluginSet{pluginName: &contractPlugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		// The client's own limit ends earlier. go-plugin holds a lock until this timeout.
		StartTimeout:     2 * (s.Timing.Start + s.Timing.Load),
		Logger:           &pluginLog{log: s.Log},
		Stderr:           c.stderr,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir},
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithStreamInterceptor(c.recordConnection),
			grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(streamWindow),
		},
		RunnerFunc: func(_ hclog.Logger, own *exec.Cmd, _ string) (runner.Runner, error) {
			c.child.cmd.Env = slices.Concat(own.Env, s.Env)
			return c.child, nil
		},
	})
}

// recordConnection records the connection of a stream, so that it can be closed. If the child
// dies between the handshake and the first call, go-plugin leaks the connection and its
// goroutines.
func (c *client[M]) recordConnection(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.mu.Lock()
	c.dialed = append(c.dialed, conn)
	c.mu.Unlock()
	return open(ctx, desc, conn, method, opts...)
}

// run starts the process, and releases everything after its end.
func (c *client[M]) run(ctx context.Context) {
	defer close(c.done)
	c.report.Err = c.stream(ctx)
	c.limit.stop()
	c.report.Late, c.report.Step = c.limit.isLate(), c.limit.current()
	close(c.streamed)
	c.child.discard()
	<-c.child.exited
	// The process has ended, so Kill joins go-plugin's goroutines and removes the socket
	// directory without waiting.
	c.plugin.Kill()
	c.closeConnections()
	c.child.close()
	c.stderr.flush()
	c.report.complete(c.child, c.stderr)
}

// closeConnections closes the recorded connections.
func (c *client[M]) closeConnections() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.dialed {
		_ = conn.Close() // usually returns the error that the connection is already closed
	}
}

// stream starts the child and returns at the end of its stream.
func (c *client[M]) stream(ctx context.Context) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	if c.limit.stop(); c.limit.isLate() {
		return errLate
	}
	c.report.Shook = true
	c.stderr.startLogging()
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

// Ask implements instance. It kills a child whose stream has not been requested yet. Such a
// child has nothing to close and does not listen.
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
