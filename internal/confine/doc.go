// Package confine makes a process give up for good what it does not need:
// capabilities, new privileges, and with Landlock (landlock(7)) all files but
// those named, TCP, and signals and abstract sockets to other processes.
//
// It does so by executing the program again. Credentials are a thread's own, and
// the verbs drivers take a write only from a thread whose credentials are those
// that opened the device (ib_safe_file_access in include/rdma/ib.h): threads that
// are restricted one by one, or later, cannot post any more. A program that was
// executed by a restricted thread has one set of credentials from the start.
package confine
