// Package release stores which devices of a host are released. No program of this module opens a released device until
// the release ends, so that an installer of drivers, a VFIO bind or a firmware reset finds the device closed.
//
// A release is a file in the directory of the status files (package statusfile), to which only root and the plugin's
// user can write. Reading a release needs no running plugin, and a plugin reads the releases before it opens a device.
// A release ends at a time of CLOCK_BOOTTIME and is valid within one boot only, so that a step of the wall clock does
// not prolong it. Each plugin listens on a socket in the same directory. `rdma-events release` asks the plugin through
// the socket to read the files again, and waits until the workers have closed their devices.
package release
