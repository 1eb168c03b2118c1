// Package release has the devices of a host that are released: no program of this module opens them until a time, so that
// an installer of drivers, a VFIO bind or a firmware reset finds them closed.
//
// A release is a file in the directory of the plugins' status (package statusfile), which only root and the plugin's user can
// write to. Whoever reads the file needs no running plugin, and a plugin that starts reads it before it opens a device. A file
// counts until a moment of CLOCK_BOOTTIME within one boot, so that no step of the wall clock makes it longer. Each plugin
// listens on a socket in the same directory, where `rdma-events release` has it read the files again and waits until the
// workers have closed their devices.
package release
