// Package recorder keeps the most recent records of a host in a directory. The directory is an append-only log that is
// bounded in bytes and survives a kill, a power cut and a full disk. A record is a JSON object with any content.
//
// A directory has a file named lock, which the writing process holds by flock(2), and segments with increasing numbers. The
// size of a segment is 1/16 of the limit for all segments. To make space for a new segment, the recorder first removes the
// records of yielding kinds from the oldest segments, except in the newest quarter of the limit. If that is not enough, it
// removes the oldest segments. Records of yielding kinds therefore never displace other records. A segment from which they
// were removed has a different magic, RECORDED.
//
//	0000000041.seg   0000000042.seg   ...   0000000056.seg   lock
//
//	segment:  | header | frame | frame | ...
//
//	header:   | magic "RECORDER" | version | first sequence | CRC-32C |    24 bytes
//	          | 8                | u32     | u64            | u32     |
//
//	frame:    | length | CRC-32C | {"sequence":17,"time":"...","boot_ns":...,"boot_id":"...","host":"...","kind":"...",...}\n |
//	          | u32    | u32     | length bytes                                                                               |
//
// Numbers are little-endian. The checksum of a header covers the bytes before it. The checksum of a frame covers its length
// and its content. A header has the same format in every version, so that an older program recognizes a newer segment.
//
// A [Recorder] writes. Sequences increase by one from record to record, across runs and boots. Only written records have a
// sequence, so a lost record leaves no gap: a record of [KindLost] has the number of lost records. There are gaps only where
// a newer version has written, and where the disk lost data that it had accepted. A later record has a higher sequence
// regardless of the wall clock. Records with the same boot ID can be compared by their boot clock.
//
// A [Reader] reads a directory, even while a Recorder writes to it, and also a copy from another host.
package recorder
