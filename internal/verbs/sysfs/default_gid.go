package sysfs

// DefaultGID returns the index of the GID that a RoCE port has of its own MAC
// address, not of an address of the host: one that a network manager deletes
// and adds again comes back at another index if a queue pair held it. The one of
// RoCE v2 is preferred. It asks no driver.
func (s FS) DefaultGID(device string, port int) (index int, ok bool) {
	entries, err := readGIDs(s.port(device, port))
	if err != nil {
		return 0, false
	}
	best, ok := defaultGID(entries)
	return best.index, ok
}
