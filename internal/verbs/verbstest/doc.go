// Package verbstest holds backends of package verbs to one behaviour. Run is
// the contract suite: its cases say in their names what every backend does, and
// a Fixture says how to make things happen to a device. Track finds devices and
// probes that a test leaves open.
package verbstest
