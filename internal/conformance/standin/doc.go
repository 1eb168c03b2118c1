// Package standin builds and controls a stand-in for libibverbs, for tests. The
// sources in testdata implement one device without hardware. A test orders its
// faults through a page of shared memory. Profiles lists the behavior of real
// drivers and their providers that soft drivers do not have.
package standin
