// Package ebpf implements a trace.Source with eBPF programs at functions of the kernel's ib_uverbs (trace.bpf.c). The programs observe the
// queues of asynchronous events of all processes, and threads that wait while they destroy an object.
//
// A tracer needs privileges for about a second, in Load. Programs.Inherit and Adopt pass the loaded programs to the second execution of the
// tracer program, which has no privileges.
package ebpf

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-O2 -mcpu=v3 -Wall -Werror" -type process -type app -type queue -type wait -type record -type sight -type board trace trace.bpf.c
