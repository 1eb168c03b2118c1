// Package recorder keeps the last records of a host in a directory: an append-only log that is bounded in bytes, and
// that survives a kill, a power cut and a full disk. A record is a JSON object of any content.
//
// A directory has a file named lock, which the writing process holds by flock(2), and segments with rising numbers. A
// segment is 1/16 of the size of the whole. Before a new one is made, the oldest are removed. Before that, records of kinds
// that yield are taken out of the oldest segments, except of the newest quarter of the whole. So they displace no others. A
// segment without them has another magic, RECORDED.
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
// Numbers are little-endian. The checksum of a header covers the bytes before it, the one of a frame its length and its
// content. A header keeps its form in every version, so that an older program recognizes a newer segment.
//
// A [Recorder] writes. Sequences rise by one from record to record, over runs and boots, and only a written record has
// one. So a record that was lost leaves no hole: a record of [KindLost] has the number of those lost. Sequences are left
// out where a newer version has written, and where the disk lost what it had taken. A later record has a higher
// sequence, whatever the wall clock says. Records of one boot ID can be compared by their boot clock.
//
// A [Reader] reads, also while a Recorder writes, and also a copy of the directory of another host.
package recorder
