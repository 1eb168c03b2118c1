// Package packaging has the files of the packages, except the programs. Its tests
// install packages with these files into a root directory of their own.
// scripts/try-packages.sh tests the released packages in the same way.
package packaging
