package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// ErrExited is wrapped by the error of AwaitReady if the program ended first.
var ErrExited = errors.New("the server has exited")

// FreePorts returns n different TCP ports of 127.0.0.1 on which no program listens. It is for servers that cannot choose a port
// themselves. Another program may take a port before the server does.
func FreePorts(ctx context.Context, n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // only at the end, so that all are different
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// AwaitReady blocks until a request to url, which the server answers once it is ready, gets the status 200. The error wraps ErrExited
// if the program ends before, or the error of ctx.
func (p *Process) AwaitReady(ctx context.Context, url string) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-poll.C:
		case <-p.Done():
			return fmt.Errorf("%w: %s", ErrExited, p.State())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", p.name, ctx.Err())
		}
	}
}
