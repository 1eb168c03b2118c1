package recorder

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"
)

const (
	magic = "RECORDER"
	// thinnedMagic is the magic of a segment from which records of yielding kinds were removed.
	thinnedMagic = "RECORDED"
	version      = 1
	headerSize   = 24
	// prefixSize is the size of the length and the checksum before the content of a frame.
	prefixSize = 8
	// maxContent limits the content of a frame. The smallest segment has space for twice as much.
	maxContent = 256 << 10
	// contentPrefix is the beginning of the content of every frame. It serves to find frames after damaged bytes.
	contentPrefix = `{"sequence":`
	contentSuffix = "}\n"
	// maxSegment is the maximum length of a segment. No recorder writes beyond it.
	maxSegment = MaxSizeMiB<<20/segmentsPerSize + prefixSize + maxContent
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errHeader   = errors.New("damaged header")
	errTooLarge = fmt.Errorf("a record has %d bytes at most", maxContent)
)

// newerError is the error for a segment that a newer version of this package wrote. Its value is that version.
type newerError uint32

func (e newerError) Error() string {
	return fmt.Sprintf("it has version %d, and this program knows %d", uint32(e), version)
}

// newHeader returns the header of a segment.
func newHeader(version uint32, first uint64) []byte { return encodeHeader(magic, version, first) }

func encodeHeader(magic string, version uint32, first uint64) []byte {
	b := []byte(magic)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, first)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseHeader returns the first sequence of a segment. The error is errHeader, or a newerError, in which case the sequence
// is valid too.
func parseHeader(b []byte) (first uint64, err error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic && !isThinned(b) ||
		crc32.Checksum(b[:headerSize-4], castagnoli) != binary.LittleEndian.Uint32(b[headerSize-4:]) {
		return 0, errHeader
	}
	first = binary.LittleEndian.Uint64(b[12:])
	switch v := binary.LittleEndian.Uint32(b[8:]); {
	case v > version:
		return first, newerError(v)
	case v < version:
		return 0, errHeader
	}
	return first, nil
}

func isThinned(b []byte) bool { return bytes.HasPrefix(b, []byte(thinnedMagic)) }

// encoder appends frames to a buffer.
type encoder struct {
	buf          bytes.Buffer
	json         *json.Encoder
	bootID, host string
}

func newEncoder(bootID, host string) *encoder {
	e := &encoder{bootID: bootID, host: host}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}

// encode appends a frame to the buffer. If it returns an error, it leaves the buffer unchanged.
func (e *encoder) encode(sequence uint64, s *stamped) error {
	at := e.buf.Len()
	e.buf.Write(make([]byte, prefixSize))
	err := e.json.Encode(struct {
		Record
		Data any `json:"data,omitempty"` // replaces Record.Data
	}{
		Record: Record{
			Sequence: sequence, Time: time.Unix(0, s.wall).UTC(), BootNS: s.boot, BootID: e.bootID, Host: e.host,
			Kind: s.Kind, Device: s.Device, Port: s.Port,
		},
		Data: s.Data,
	})
	frame := e.buf.Bytes()[at:]
	if err == nil && len(frame) > prefixSize+maxContent {
		err = errTooLarge
	}
	if err != nil {
		e.buf.Truncate(at)
		return fmt.Errorf("encode record of kind %.40s: %w", s.Kind, err)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-prefixSize))
	binary.LittleEndian.PutUint32(frame[4:], frameChecksum(frame))
	return nil
}

// frameChecksum returns the checksum of a whole frame.
func frameChecksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:4], castagnoli), castagnoli, frame[prefixSize:])
}

// frameAt returns the content of the frame at the start of b, or nil if b does not start with a valid frame.
func frameAt(b []byte) []byte {
	if content := contentAt(b); content != nil && checksumMatches(b, content) {
		return content
	}
	return nil
}

// contentAt returns the content of the frame at the start of b without verifying the checksum, or nil if b does not start
// with a frame.
func contentAt(b []byte) []byte {
	if len(b) < prefixSize {
		return nil
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxContent || int(n) > len(b)-prefixSize {
		return nil
	}
	content := b[prefixSize : prefixSize+int(n)]
	if !bytes.HasPrefix(content, []byte(contentPrefix)) || !bytes.HasSuffix(content, []byte(contentSuffix)) {
		return nil
	}
	return content
}

// checksumMatches verifies the checksum of the frame at the start of b.
func checksumMatches(b, content []byte) bool {
	return frameChecksum(b[:prefixSize+len(content)]) == binary.LittleEndian.Uint32(b[4:])
}

// finder finds the frames of a segment from start to end. The zero finder is ready for use.
//
// Each place that looks like a frame costs a checksum of up to maxContent bytes, and a crafted segment has such a place
// every 20 bytes. Therefore the finder limits the bytes that it checksums without finding a frame in proportion to the
// bytes that it has passed. Ordinary damage stays far below the limit, because it wastes each damaged frame only once.
type finder struct {
	passed int // bytes of the segment that were searched
	wasted int // bytes that were checksummed without finding a frame
}

// maxWasted is the number of bytes that may be wasted in any case.
const maxWasted = 4 * maxContent

// find returns the content of the first valid frame in b and the offset of the frame, or nil and len(b). The caller passes
// the bytes after the frame to the next call.
func (f *finder) find(b []byte) (content []byte, at int) {
	if content := f.tryFrame(b, 0); content != nil {
		f.passed += prefixSize + len(content)
		return content, 0
	}
	for from := prefixSize; ; {
		i := bytes.Index(b[min(from, len(b)):], []byte(contentPrefix))
		if i < 0 {
			f.passed += len(b)
			return nil, len(b)
		}
		at := from + i - prefixSize
		if content := f.tryFrame(b[at:], at); content != nil {
			f.passed += at + prefixSize + len(content)
			return content, at
		}
		from += i + 1
	}
}

// tryFrame is like frameAt, but returns nil if the limit for wasted bytes is reached. at is the number of bytes before b
// that f.passed does not include yet.
func (f *finder) tryFrame(b []byte, at int) []byte {
	content := contentAt(b)
	if content == nil || f.wasted+len(content) > maxWasted+2*(f.passed+at) {
		return nil
	}
	if checksumMatches(b, content) {
		return content
	}
	f.wasted += len(content)
	return nil
}

func parseRecord(content []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(content, &r); err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// kindOf returns the kind of a record without decoding it, or "" if it has none. This is safe because the kind comes before
// the data, and because JSON strings contain no quote without a backslash before it.
func kindOf(content []byte) string {
	_, rest, _ := bytes.Cut(content, []byte(`,"kind":"`))
	kind, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(kind)
}

// validLength returns the offset of the first invalid frame in a segment with a valid header.
func validLength(b []byte) int {
	at := headerSize
	for {
		content := frameAt(b[at:])
		if content == nil {
			return at
		}
		at += prefixSize + len(content)
	}
}

// lastRecord returns the last valid record of a segment, even if the segment is damaged, or the zero Record. It decodes only
// that record, because decoding all records of the largest segment takes seconds.
func lastRecord(b []byte) Record {
	var offsets []int
	var f finder
	for at := 0; at < len(b); {
		content, offset := f.find(b[at:])
		if content == nil {
			break
		}
		offsets = append(offsets, at+offset)
		at += offset + prefixSize + len(content)
	}
	for _, at := range slices.Backward(offsets) {
		if r, err := parseRecord(frameAt(b[at:])); err == nil {
			return r
		}
	}
	return Record{}
}
