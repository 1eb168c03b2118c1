// Package trial has a real worker try a device, for the doctor.
package trial
