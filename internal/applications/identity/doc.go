// Package identity identifies threads and processes by the files in /proc that every user can read: the process of a thread, its name and
// start, and the unit of its cgroup. It needs no privilege. A process that cannot be read, because it has ended or is hidden (hidepid in
// proc(5)), is unknown, which is not an error. Package inventory knows the RDMA objects of processes.
package identity
