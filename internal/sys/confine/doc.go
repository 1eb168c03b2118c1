// Package confine makes a process permanently give up everything that it does not need:
// capabilities, new privileges and, with Landlock (landlock(7)), all files except the named
// ones, TCP, and signals and abstract sockets to other processes.
//
// To do so, it executes the program again. Each thread has its own credentials, and the
// verbs drivers accept a write only from a thread with the credentials that opened the
// device (ib_safe_file_access in include/rdma/ib.h). Threads that are restricted one by one,
// or later, could no longer post. A program that a restricted thread executes has a single
// set of credentials from the start.
package confine
