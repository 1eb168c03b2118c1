package hotplug

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func netlinkMessage(kind uint16, payload []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(payload)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, make([]byte, 10)...)
	return append(b, payload...)
}

func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func deviceMessage(name string, index uint32) []byte {
	payload := attribute(nldevDevIndex, binary.NativeEndian.AppendUint32(nil, index))
	payload = append(payload, attribute(nldevDevName, append([]byte(name), 0))...)
	payload = append(payload, attribute(6, []byte{1})...) // an attribute of no interest
	return netlinkMessage(nldevGet, payload)
}

func code(errno int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(errno)) }

func TestARequestForANodeNamesTheDeviceAndTheClient(t *testing.T) {
	messages, err := syscall.ParseNetlinkMessage(request(nldevGetChardev, 0, nodeOf(17)))
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.EqualValues(t, 5<<10|15, messages[0].Header.Type)
	require.EqualValues(t, unix.NLM_F_REQUEST, messages[0].Header.Flags)
	want := attribute(nldevDevIndex, binary.NativeEndian.AppendUint32(nil, 17))
	want = append(want, attribute(nldevChardevType, []byte("uverbs\x00"))...)
	require.Equal(t, want, messages[0].Data)
}

func TestParseIndexesReadsADump(t *testing.T) {
	indexes := map[string]int{}

	done, err := parseIndexes(append(deviceMessage("mlx5_0", 0), deviceMessage("rxe0", 17)...), indexes)
	require.NoError(t, err)
	require.False(t, done)

	done, err = parseIndexes(netlinkMessage(unix.NLMSG_DONE, code(0)), indexes)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, map[string]int{"mlx5_0": 0, "rxe0": 17}, indexes)
}

func TestParseIndexesReturnsTheKernelsErrors(t *testing.T) {
	_, err := parseIndexes(netlinkMessage(unix.NLMSG_ERROR, code(-int32(unix.EPERM))), nil)
	require.ErrorIs(t, err, unix.EPERM)

	_, err = parseIndexes(netlinkMessage(unix.NLMSG_DONE, code(-int32(unix.EMSGSIZE))), nil)
	require.ErrorIs(t, err, unix.EMSGSIZE)

	_, err = parseIndexes(netlinkMessage(unix.NLMSG_ERROR, nil), nil)
	require.ErrorIs(t, err, errShort)
}

func TestParseIndexesSkipsADeviceWithoutNameOrIndex(t *testing.T) {
	indexes := map[string]int{}
	nameless := netlinkMessage(nldevGet, attribute(nldevDevIndex, code(3)))
	numberless := netlinkMessage(nldevGet, attribute(nldevDevName, []byte("rxe0\x00")))

	_, err := parseIndexes(append(nameless, numberless...), indexes)
	require.NoError(t, err)
	require.Empty(t, indexes)
}

func TestParseIndexesRefusesAnAttributeThatIsCutOff(t *testing.T) {
	payload := attribute(nldevDevName, []byte("rxe0\x00"))
	binary.NativeEndian.PutUint16(payload, 64)

	_, err := parseIndexes(netlinkMessage(nldevGet, payload), map[string]int{})
	require.ErrorIs(t, err, errShort)
}

func FuzzParseIndexes(f *testing.F) {
	f.Add(append(deviceMessage("mlx5_0", 0), deviceMessage("rxe0", 17)...))
	f.Add(netlinkMessage(unix.NLMSG_DONE, code(0)))
	f.Add(netlinkMessage(unix.NLMSG_ERROR, code(-1)))
	f.Add(netlinkMessage(nldevGet, []byte{4, 0, 2, 0, 3, 0, 1, 0}))
	f.Fuzz(func(t *testing.T, part []byte) {
		indexes := map[string]int{}
		_, _ = parseIndexes(part, indexes) // must neither panic nor hang
		for name, index := range indexes {
			require.NotEmpty(t, name)
			require.GreaterOrEqual(t, index, 0)
		}
	})
}
