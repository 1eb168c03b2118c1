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

// errLate ends a client whose child shook hands as its time was up.
var errLate = errors.New("the handshake came too late")

// client is one process as its host sees it: start, handshake, stream, end. It
// runs in a goroutine of its own that ends when the process is gone and all
// that belonged to it is released; for a process that the kernel does not release,
// that may be never.
type client[M any] struct {
	attempt  Attempt[M]
	child    *child
	stderr   *stderrLog
	plugin   *plugin.Client
	limit    *limit
	messages chan M
	done     chan struct{}
	cancel   context.CancelFunc

	streaming atomic.Bool
	report    report // complete when done is closed

	mu     sync.Mutex
	dialed []*grpc.ClientConn
}

// startClient starts a process and returns at once. It takes over shared.
func startClient[M any](s *Spec, dir string, a Attempt[M], shared *os.File) (*client[M], error) {
	c, err := newClient(s, dir, a, shared)
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

func newClient[M any](s *Spec, dir string, a Attempt[M], shared *os.File) (*client[M], error) {
	child, err := newChild(s, shared)
	if err != nil {
		return nil, err
	}
	c := &client[M]{
		attempt:  a,
		child:    child,
		stderr:   newStderrLog(s.Log, time.Now),
		limit:    newLimit(s.Timing.Start, child.kill),
		messages: make(chan M),
		done:     make(chan struct{}),
	}
	child.born = c.limit.start
	c.report.Exe = s.Exe.Name()
	c.plugin = c.newPlugin(s, dir)
	return c, nil
}

// streamWindow is how many bytes a child may send ahead of a host that is slow to
// read. Given a size, gRPC does not measure one: that is a ping and its answer for
// each message, on a socket that has no bandwidth to find out.
const streamWindow = 1 << 20

func (c *client[M]) newPlugin(s *Spec, dir string) *plugin.Client {
	return plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  s.Handshake.config(),
		Plugins:          plugin.PluginSet{pluginName: &contractPlugin{}},
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		SkipHostEnv:      true,
		// The client's own limit comes first; this one holds a lock meanwhile.
		StartTimeout:     2 * s.Timing.Start,
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

// remember keeps the connection that a stream is made on. go-plugin forgets
// its connection, with the goroutines behind it, when the worker dies between
// the handshake and the first call.
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
	c.report.Late = c.limit.isLate()
	close(c.messages)
	c.child.discard()
	<-c.child.exited
	// The process is gone, so this joins go-plugin's goroutines and removes the
	// socket directory without waiting for anything.
	c.plugin.Kill()
	c.forget()
	c.child.close()
	c.stderr.flush()
	c.report.complete(c.child, c.stderr)
}

func (c *client[M]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.dialed {
		_ = conn.Close() // mostly closed already, which is its only error
	}
}

// stream runs from the fork to the end of the child's stream.
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
	return c.attempt.Stream(ctx, conn, func(m M) error {
		select {
		case c.messages <- m:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (c *client[M]) connect() (*grpc.ClientConn, error) {
	p, err := c.plugin.Client()
	if err != nil {
		return nil, err // it is reported with "cannot be started"
	}
	conn, err := p.Dispense(pluginName)
	if err != nil {
		return nil, fmt.Errorf("connect to the worker: %w", err)
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

// Messages implements instance.
func (c *client[M]) Messages() <-chan M { return c.messages }

// Done implements instance.
func (c *client[M]) Done() <-chan struct{} { return c.done }

// Report implements instance.
func (c *client[M]) Report() *report { return &c.report }

// Ask implements instance. A child that was not asked for its stream yet holds
// nothing that it could close, and does not listen.
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
