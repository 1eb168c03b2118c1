// Package packaging has the parts of the packages other than the programs. Its
// tests install packages made of them into their own root.
// scripts/try-packages.sh does that with the released packages.
package packaging
