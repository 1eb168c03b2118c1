//go:build guest

package guest

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// ListeningPorts returns the TCP port of each socket that listens in the network namespace of the caller. It reads the kernel's
// tables (proc_net_tcp.rst): to connect would take the only connection that some servers accept, and to bind the port would
// take it away from a server that is about to.
func ListeningPorts(t testing.TB) (ports []int) {
	t.Helper()
	for _, name := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // a kernel without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const listen = "0A" // TCP_LISTEN of net/tcp_states.h
			f := strings.Fields(line)
			if len(f) < 4 || f[3] != listen {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatalf("parse %s: %q: %v", name, line, err)
			}
			ports = append(ports, int(port))
		}
	}
	return ports
}
