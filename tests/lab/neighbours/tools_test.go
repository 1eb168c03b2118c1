//go:build guest

package neighbours

import "testing"

// The servers' TCP ports. Those of rdma-core's examples and of perftest are their defaults.
const (
	pingpongPort = 18515
	perftestPort = 18515
	ucxPort      = 13337
)

// TestExamplesOfLibibverbs runs ibv_*_pingpong: connections, datagrams, a shared receive queue, and completion events.
func TestExamplesOfLibibverbs(t *testing.T) {
	runPairs(t, func(s *stage) []pair {
		pingpong := func(program, name string, options ...string) pair {
			line := append([]string{program, "-d", device, "-g", s.gid}, options...)
			return pair{name: name, server: line, client: append(line[:len(line):len(line)], "127.0.0.1"), port: pingpongPort}
		}
		long := pingpong("ibv_rc_pingpong", "ibv_rc_pingpong", "-n", "5000")
		long.stopped = true
		return []pair{
			long,
			pingpong("ibv_rc_pingpong", "ibv_rc_pingpong with events", "-e", "-c", "-n", "500"),
			pingpong("ibv_uc_pingpong", "ibv_uc_pingpong", "-n", "500"),
			pingpong("ibv_ud_pingpong", "ibv_ud_pingpong", "-s", "512", "-n", "500"),
			pingpong("ibv_srq_pingpong", "ibv_srq_pingpong", "-n", "500"),
			pingpong("ibv_srq_pingpong", "ibv_srq_pingpong with events", "-e", "-n", "500"),
		}
	})
}

// TestExamplesOfLibrdmacm runs programs that connect by the connection manager.
func TestExamplesOfLibrdmacm(t *testing.T) {
	runPairs(t, func(s *stage) []pair {
		return []pair{
			{
				name:   "rping",
				server: []string{"rping", "-s", "-a", s.address, "-C", "2000", "-V"},
				client: []string{"rping", "-c", "-a", s.address, "-C", "2000", "-V"}, stopped: true,
			},
			{
				name:   "ucmatose",
				server: []string{"ucmatose", "-b", s.address, "-C", "50"},
				client: []string{"ucmatose", "-s", s.address, "-C", "50"},
			},
			{
				name:   "udaddy",
				server: []string{"udaddy", "-b", s.address, "-C", "50"},
				client: []string{"udaddy", "-s", s.address, "-C", "50"},
			},
		}
	})
}

// TestPerftest runs perftest: each operation, each transport that rxe has, by polling and by events.
func TestPerftest(t *testing.T) {
	runPairs(t, func(s *stage) []pair {
		test := func(program string, options ...string) pair {
			name := program
			for _, o := range options {
				name += " " + o
			}
			line := append([]string{program, "-d", device, "-x", s.gid, "-F"}, options...)
			return pair{name: name, server: line, client: append(line[:len(line):len(line)], "127.0.0.1"), port: perftestPort}
		}
		long := test("ib_send_bw", "-s", "4096", "-n", "10000")
		long.stopped = true
		return []pair{
			long,
			test("ib_send_lat", "-c", "UD", "-n", "1000"),
			test("ib_write_bw", "-q", "4", "-n", "1000"),
			test("ib_write_lat", "-n", "1000"),
			test("ib_read_bw", "-e", "-n", "1000"),
			test("ib_atomic_lat", "-A", "FETCH_AND_ADD", "-n", "1000"),
		}
	})
}

// TestUCX runs ucx_perftest over connections: messages, writes and atomic operations.
func TestUCX(t *testing.T) {
	runPairs(t, func(s *stage) []pair {
		test := func(name, messages string) pair {
			return pair{
				name: "ucx_perftest " + name, env: []string{"UCX_IB_GID_INDEX=" + s.gid}, port: ucxPort,
				server: []string{"ucx_perftest"},
				client: []string{"ucx_perftest", "127.0.0.1", "-x", "rc_verbs", "-d", device + ":1", "-t", name, "-n", messages, "-w", "100"},
			}
		}
		long := test("am_lat", "5000")
		long.stopped = true
		return []pair{long, test("put_bw", "1000"), test("add_lat", "1000")}
	})
}
