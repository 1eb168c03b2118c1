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
	// thinned is the magic of a segment without the records that yielded.
	thinned    = "RECORDED"
	version    = 1
	headerSize = 24
	// prefixSize is that of the length and the checksum before the content of a frame.
	prefixSize = 8
	// maxContent limits the content of a frame. The smallest segment has twice of it.
	maxContent = 256 << 10
	// opening is how the content of every frame begins. It finds the frames that follow damaged bytes.
	opening = `{"sequence":`
	closing = "}\n"
	// maxSegment is where the longest segment ends at the latest. What follows is no recorder's.
	maxSegment = MaxSizeMiB<<20/segmentsPerSize + prefixSize + maxContent
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errHeader   = errors.New("damaged header")
	errTooLarge = fmt.Errorf("a record has %d bytes at most", maxContent)
)

// newerError is the error of a segment that a later version of this package wrote.
type newerError uint32

func (e newerError) Error() string {
	return fmt.Sprintf("it has version %d, and this program knows %d", uint32(e), version)
}

// newHeader returns the header of a segment.
func newHeader(version uint32, first uint64) []byte { return header(magic, version, first) }

func header(magic string, version uint32, first uint64) []byte {
	b := []byte(magic)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, first)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseHeader returns the first sequence of a segment. The error is errHeader or a newerError, which comes with the
// sequence.
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

func isThinned(b []byte) bool { return bytes.HasPrefix(b, []byte(thinned)) }

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

// encode appends a frame. After an error the buffer is as it was.
func (e *encoder) encode(sequence uint64, s *stamped) error {
	at := e.buf.Len()
	e.buf.Write(make([]byte, prefixSize))
	err := e.json.Encode(struct {
		Record
		Data any `json:"data,omitempty"` // in place of Record.Data
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
	binary.LittleEndian.PutUint32(frame[4:], checksum(frame))
	return nil
}

// checksum returns the checksum of a whole frame.
func checksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:4], castagnoli), castagnoli, frame[prefixSize:])
}

// frameAt returns the content of the frame at the begin of b, or nil if there is no sound one.
func frameAt(b []byte) []byte {
	if content := contentAt(b); content != nil && isSound(b, content) {
		return content
	}
	return nil
}

// contentAt is frameAt without the checksum.
func contentAt(b []byte) []byte {
	if len(b) < prefixSize {
		return nil
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxContent || int(n) > len(b)-prefixSize {
		return nil
	}
	content := b[prefixSize : prefixSize+int(n)]
	if !bytes.HasPrefix(content, []byte(opening)) || !bytes.HasSuffix(content, []byte(closing)) {
		return nil
	}
	return content
}

// isSound compares the checksum of the frame at the begin of b.
func isSound(b, content []byte) bool {
	return checksum(b[:prefixSize+len(content)]) == binary.LittleEndian.Uint32(b[4:])
}

// finder finds the frames of a segment from its begin to its end. The zero finder is ready.
//
// What looks like a frame costs a checksum of up to maxContent bytes, and a crafted segment has such a place every 20
// bytes. So the bytes that are summed in vain are limited by those that were passed. Damage does not come near to that:
// it costs each damaged frame once.
type finder struct {
	passed, vain int // bytes
}

// wasteful is how many bytes are summed in vain whatever was passed.
const wasteful = 4 * maxContent

// find returns the content of the first sound frame in b and where the frame begins, or nil and len(b). The next call
// has what follows the frame.
func (f *finder) find(b []byte) (content []byte, at int) {
	if content := f.try(b, 0); content != nil {
		f.passed += prefixSize + len(content)
		return content, 0
	}
	for from := prefixSize; ; {
		i := bytes.Index(b[min(from, len(b)):], []byte(opening))
		if i < 0 {
			f.passed += len(b)
			return nil, len(b)
		}
		at := from + i - prefixSize
		if content := f.try(b[at:], at); content != nil {
			f.passed += at + prefixSize + len(content)
			return content, at
		}
		from += i + 1
	}
}

// try is frameAt, as far as the limit allows. at is how many bytes were passed since f.passed.
func (f *finder) try(b []byte, at int) []byte {
	content := contentAt(b)
	if content == nil || f.vain+len(content) > wasteful+2*(f.passed+at) {
		return nil
	}
	if isSound(b, content) {
		return content
	}
	f.vain += len(content)
	return nil
}

func parseRecord(content []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(content, &r); err != nil {
		return Record{}, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// kindOf returns the kind of a record, or "" if it has none. No string in JSON has a quote without a backslash before it,
// and the kind comes before the data.
func kindOf(content []byte) string {
	_, rest, _ := bytes.Cut(content, []byte(`,"kind":"`))
	kind, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(kind)
}

// soundUntil returns where the first bad frame of a segment with a sound header begins.
func soundUntil(b []byte) int {
	at := headerSize
	for {
		content := frameAt(b[at:])
		if content == nil {
			return at
		}
		at += prefixSize + len(content)
	}
}

// last returns the last sound record of a segment, damaged or not, or the zero Record. It decodes no other one, since
// that takes seconds for the largest segment.
func last(b []byte) Record {
	var begins []int
	var f finder
	for at := 0; at < len(b); {
		content, begin := f.find(b[at:])
		if content == nil {
			break
		}
		begins = append(begins, at+begin)
		at += begin + prefixSize + len(content)
	}
	for _, at := range slices.Backward(begins) {
		if r, err := parseRecord(frameAt(b[at:])); err == nil {
			return r
		}
	}
	return Record{}
}
