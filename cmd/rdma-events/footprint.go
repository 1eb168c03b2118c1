package main

import "golang.org/x/sys/unix"

// refuseHugePages keeps the kernel from backing a small heap by pages of 2 MiB,
// as it does by default where transparent huge pages are "always". Workers
// inherit it, prctl(2): of 8 workers each held 5 to 7 MiB more. A kernel without
// huge pages refuses, and needs none of it.
func refuseHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }
