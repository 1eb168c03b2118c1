// Package clock reads the kernel's clocks.
package clock
