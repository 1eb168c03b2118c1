// Package standin builds a stand-in for libibverbs for tests, and controls it.
// Its sources are in testdata: one device without hardware, whose faults a test
// orders through a page of shared memory. The table Profiles lists the
// behaviour of real drivers and their providers that soft drivers do not have.
package standin
