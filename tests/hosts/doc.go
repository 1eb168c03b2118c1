// Package hosts runs the real programs on a zoo of hosts: each directory of testdata is one, taken from a public report. Its
// host.toml has the devices, as sysfs and the verbs library show them, and its expected.txt has what the programs have to say about
// them. See docs/verification.md for how to add one.
//
// A host is a tree in place of /sys, control pages of the stand-in library in place of /dev/infiniband, and a network namespace
// without interfaces. The zoo cannot show what comes by netlink, such as the type of an RDMA device, the namespace that has it, or the
// legs of a bond: the guests of tests/lab are for that.
package hosts
