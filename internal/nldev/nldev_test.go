package nldev

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// nest builds an attribute, padded as by the kernel.
func nest(kind uint16, parts ...[]byte) []byte {
	var value []byte
	for _, p := range parts {
		value = append(value, p...)
	}
	raw := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	raw = append(binary.NativeEndian.AppendUint16(raw, kind), value...)
	return append(raw, make([]byte, aligned(len(raw))-len(raw))...)
}

func wide(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }

func message(kind uint16, seq uint32, body []byte) []byte {
	raw := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	raw = binary.NativeEndian.AppendUint16(raw, kind)
	raw = binary.NativeEndian.AppendUint16(raw, 0)
	raw = binary.NativeEndian.AppendUint32(raw, seq)
	return append(append(raw, 0, 0, 0, 0), body...)
}

func TestDomainsAreSummedByOwner(t *testing.T) {
	kernel := nest(attrPDEntry, nest(attrUseCount, wide(2)), nest(attrKernName, []byte("ib_core\x00")))
	process := nest(attrPDEntry, nest(attrUseCount, wide(7)), attribute(nil, attrPID, 4711))
	unseen := nest(attrPDEntry, nest(attrUseCount, wide(1)))
	var u Use
	u.add(nest(attrPD, kernel, process, unseen))
	u.add(nest(attrPD, process, unseen))
	require.Equal(t, []Owner{
		{Kernel: "ib_core", Domains: 1, Objects: 2}, {PID: 4711, Domains: 2, Objects: 14}, {Domains: 2, Objects: 2},
	}, u.Owners)
}

func TestQueuePairsAreThoseOfTheSummary(t *testing.T) {
	entry := func(name string, n uint64) []byte {
		return nest(attrSummaryEntry, nest(attrSummaryName, []byte(name+"\x00")), nest(attrSummaryCount, wide(n)))
	}
	require.Equal(t, 3, queuePairs(nest(attrSummary, entry("pd", 9), entry("qp", 3), entry("mr", 8))))
	require.Zero(t, queuePairs(nest(attrSummary, entry("pd", 9))))
}

func TestAnswerEndsWithDoneOrAnErrno(t *testing.T) {
	bodies := 0
	count := func([]byte) { bodies++ }
	one, old := message(nldev<<10|cmdGet, 7, nil), message(nldev<<10|cmdGet, 6, nil)
	done, err := answer(append(append(one, old...), message(unix.NLMSG_DONE, 7, nil)...), 7, count)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, 1, bodies)

	refused := message(unix.NLMSG_ERROR, 7, binary.NativeEndian.AppendUint32(nil, ^uint32(unix.EINVAL)+1))
	_, err = answer(refused, 7, count)
	require.ErrorIs(t, err, unix.EINVAL)
	done, err = answer(message(unix.NLMSG_ERROR, 7, make([]byte, 4)), 7, count)
	require.NoError(t, err)
	require.True(t, done)
}

func TestDamagedAnswersEndEarly(t *testing.T) {
	whole := nest(attrPD, nest(attrPDEntry, attribute(nil, attrPID, 4711)))
	for n := range whole {
		var u Use
		u.add(whole[:n])
		require.Empty(t, u.Owners)
	}
	_, err := answer(message(nldev<<10|cmdGet, 7, whole)[:20], 7, func([]byte) {})
	require.ErrorContains(t, err, "a message of")
	_, err = answer(message(unix.NLMSG_ERROR, 7, nil), 7, func([]byte) {})
	require.Error(t, err)
}
