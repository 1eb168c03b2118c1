// Package standin builds a stand-in for libibverbs, for tests, and gives its
// orders. Its sources are in testdata: one device
// without hardware whose faults are ordered through a page of shared memory. What
// real drivers and their providers do that soft ones do not is the table Profiles.
package standin
