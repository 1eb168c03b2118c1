//go:build guest

package neighbours

import (
	"slices"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
)

// pair is a program of which a server and a client run on the same device.
type pair struct {
	name   string // of the subtest
	env    []string
	server []string
	client []string
	port   int // the server's TCP port; 0: it listens at the connection manager
	// serverExit is the exit status of the server.
	serverExit int
	// stopped: both programs are stopped amid their work in the company of the tracer, so that what they hold can be compared, and have an
	// event each.
	stopped bool
}

// pairLimit is ten times what the longest of them takes in an emulated guest.
const pairLimit = 3 * time.Minute

// runPairs runs pairs one after the other, in each company.
func runPairs(t *testing.T, all func(s *stage) []pair) {
	t.Helper()
	inEachCompany(t, func(t *testing.T, s *stage) {
		for _, p := range all(s) {
			t.Run(p.name, func(t *testing.T) { p.run(t, s) })
		}
	})
}

// run requires that both programs succeed.
func (p pair) run(t *testing.T, s *stage) {
	t.Helper()
	began := time.Now()
	server := startProcess(t, p.env, p.server...)
	guest.Eventually(t, "the server of "+p.name+" listens", soon, func() bool { return p.listens(t, server) })
	client := startProcess(t, p.env, p.client...)
	if p.stopped && s.traced {
		p.compare(t, s, server, client)
	}
	clientExit, serverExit := client.status(t, pairLimit), server.status(t, pairLimit)
	t.Logf("%v, the client ended with %d, the server with %d", time.Since(began).Round(time.Millisecond), clientExit, serverExit)
	if clientExit != 0 || serverExit != p.serverExit {
		t.Errorf("want 0 from the client and %d from the server; the client printed:\n%s\nthe server printed:\n%s",
			p.serverExit, client.output.String(), server.output.String())
	}
}

func (p pair) listens(t *testing.T, server *process) bool {
	t.Helper()
	select {
	case <-server.exited:
		t.Fatalf("the server of %s has ended with %d:\n%s", p.name, server.cmd.ProcessState.ExitCode(), server.output.String())
	default:
	}
	if p.port != 0 {
		return slices.Contains(guest.ListeningPorts(t), p.port)
	}
	return slices.ContainsFunc(guest.Resources(t, "cm_id", device), func(o map[string]any) bool {
		return o["state"] == "LISTEN" && server.made(o)
	})
}

// compare stops both programs while their queue pairs are connected, requires that the plugin reports what rdma(8) shows of them, causes an
// event of each queue pair, as some drivers do when a connection is established, and has the programs go on.
func (p pair) compare(t *testing.T, s *stage, server, client *process) {
	t.Helper()
	both := []*process{server, client}
	guest.Eventually(t, p.name+" is connected", soon, func() bool {
		return !slices.ContainsFunc(both, func(p *process) bool { return len(p.queuePairs(t, "RTR", "RTS")) == 0 })
	})
	pauseProcesses(t, both...)
	objects := s.requireObjects(t, p.name)
	for _, one := range both {
		for _, field := range []string{"contexts", "pds", "cqs", "qps"} {
			if objects[one.comm()][field] < 1 {
				t.Errorf("want %s of %s, got %v", field, one.comm(), objects)
			}
		}
		for _, number := range one.queuePairs(t, "RTR", "RTS") {
			guest.InjectNumber(t, device, "qp", number, int(verbs.EventCommEst), 1)
			s.caused[one.comm()]++
		}
	}
	resumeProcesses(t, both...)
}

// queuePairs returns the numbers of the program's queue pairs that are in one of the states.
func (p *process) queuePairs(t *testing.T, states ...string) (numbers []int) {
	t.Helper()
	for _, o := range guest.Resources(t, "qp", device) {
		state, _ := o["state"].(string)
		if !slices.Contains(states, state) || !p.made(o) {
			continue
		}
		number, ok := o["lqpn"].(float64)
		if !ok {
			t.Fatalf("want the number of a queue pair, got %v", o)
		}
		numbers = append(numbers, int(number))
	}
	return numbers
}
