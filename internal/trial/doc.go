// Package trial tries devices with a real worker, for the doctor.
package trial
