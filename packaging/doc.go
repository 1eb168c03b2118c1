// Package packaging holds what the packages consist of beside the programs. Its
// tests install them into a root of their own; scripts/try-packages.sh does it
// with the packages that are released.
package packaging
