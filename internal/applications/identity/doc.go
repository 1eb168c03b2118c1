// Package identity finds out who a thread or process is, from what /proc shows to every user: its process, the name and
// start of that, and the unit that its cgroup names. It needs no privilege. What cannot be read, as with a process that
// has ended or is hidden (hidepid in proc(5)), is unknown and no error. What the process does with RDMA devices is known to
// package inventory.
package identity
