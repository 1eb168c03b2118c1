// Package confine makes a process give up for good everything that it does not need:
// capabilities, new privileges, and with Landlock (landlock(7)) all files but those
// named, TCP, and signals and abstract sockets to other processes.
//
// It does so by executing the program again. Each thread has its own credentials, and the
// verbs drivers accept a write only from a thread whose credentials are those that opened
// the device (ib_safe_file_access in include/rdma/ib.h): threads that are restricted one
// by one, or later, cannot post any more. A program that was executed by a restricted
// thread has one set of credentials from the start.
package confine
