// Package ebpf is the trace.Source of the kernel: eBPF programs at functions of ib_uverbs, which see every process' queue of
// asynchronous events, and the threads that wait in a destruction. trace.bpf.c has the programs.
//
// A tracer needs privileges for about a second. Load uses them; Programs.Inherit and Adopt carry what it made over to the
// second start of the program, which has none.
package ebpf

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-16 -strip llvm-strip-16 -target amd64,arm64 -cflags "-O2 -mcpu=v3 -Wall -Werror" -type process -type app -type queue -type wait -type record -type sight -type board trace trace.bpf.c
