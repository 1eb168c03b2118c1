// Package hosts runs the real programs on a zoo of hosts: each directory of testdata is one, taken from a public report. Its
// host.toml has the devices, as sysfs and the verbs library show them, and its expected.txt has what the programs have to say about
// them.
//
// To add a host, write
//   - host.toml: the URL of the report, a summary of it, and the devices. The struct device in host.go lists the keys of a device.
//     A key that is left out has the value of a healthy ConnectX.
//   - expected.txt, before you run the programs on the host: one expectation in each line, such as `points never rdma_port up=0`. The
//     type expectation in expectation.go has the forms.
//   - differences.txt, only if you know that the programs are wrong: the lines of expected.txt that they do not meet, each with the
//     reason indented below it.
//
// A host is a tree in place of /sys, control pages of the stand-in library in place of /dev/infiniband, and a network namespace
// without interfaces. Its events happen once the points are as each of them says.
//
// The zoo cannot show
//   - what comes by netlink: RDMA netlink answers for the kernel of this machine, which has none of the devices. The programs then
//     see no type of a device, no namespace that has it, no uevent and no legs of a bond. The guests of tests/lab show these.
//   - files of sysfs that a driver refuses to read: where the library's queries fail, these files can still be read.
//   - alerts whose hold is longer than the host lasts. The commands run some seconds after the start unless host.toml has lasts.
package hosts
