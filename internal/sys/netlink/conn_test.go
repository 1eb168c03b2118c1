package netlink

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/tests/prerequisite"
)

const testKind, testSeq = 0x1401, 7

// newMessage returns a message as the kernel sends it.
func newMessage(kind uint16, seq uint32, body []byte) []byte {
	raw := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	raw = binary.NativeEndian.AppendUint16(raw, kind)
	raw = binary.NativeEndian.AppendUint16(raw, 0)
	raw = binary.NativeEndian.AppendUint32(raw, seq)
	return append(append(raw, 0, 0, 0, 0), body...)
}

// errnoBody returns the body of the last message of an answer.
func errnoBody(errno unix.Errno) []byte { return Word(uint32(-int32(errno))) }

// readBodies returns the bodies of the messages in a datagram.
func readBodies(raw []byte) (bodies []string, done bool, err error) {
	done, err = handleDatagram(raw, testKind, testSeq, func(body []byte) error {
		bodies = append(bodies, string(body))
		return nil
	})
	return bodies, done, err
}

func TestAnAnswerIsTheMessagesOfItsRequest(t *testing.T) {
	one, two, old := newMessage(testKind, testSeq, []byte("one.")), newMessage(testKind, testSeq, []byte("two.")), newMessage(testKind, testSeq-1, []byte("old."))
	bodies, done, err := readBodies(slices.Concat(old, one, newMessage(unix.NLMSG_DONE, testSeq-1, errnoBody(0)), two))
	require.NoError(t, err)
	require.False(t, done, "there is more to come")
	require.Equal(t, []string{"one.", "two."}, bodies)
	for _, kind := range []uint16{unix.NLMSG_DONE, unix.NLMSG_ERROR} {
		bodies, done, err = readBodies(slices.Concat(one, newMessage(kind, testSeq, errnoBody(0)), two))
		require.NoError(t, err)
		require.True(t, done)
		require.Equal(t, []string{"one."}, bodies)
	}
	bodies, done, err = readBodies(nil)
	require.NoError(t, err)
	require.False(t, done)
	require.Empty(t, bodies)
}

func TestARefusalIsItsErrno(t *testing.T) {
	for _, kind := range []uint16{unix.NLMSG_DONE, unix.NLMSG_ERROR} {
		for _, errno := range []unix.Errno{unix.EPERM, unix.EMSGSIZE, unix.ENODEV} {
			_, _, err := readBodies(newMessage(kind, testSeq, errnoBody(errno)))
			require.ErrorIs(t, err, errno)
		}
	}
}

func TestDamagedAnswersAreErrors(t *testing.T) {
	whole := newMessage(testKind, testSeq, []byte("body"))
	for name, raw := range map[string][]byte{
		"cut":                     whole[:len(whole)-1],
		"of another type":         newMessage(testKind+1, testSeq, nil),
		"a refusal without errno": newMessage(unix.NLMSG_ERROR, testSeq, []byte{1, 2, 3}),
	} {
		_, _, err := readBodies(raw)
		require.ErrorContains(t, err, "read answer", name)
	}
}

func TestAnAnswerThatIsRefusedEnds(t *testing.T) {
	calls, stop := 0, errors.New("stop")
	_, err := handleDatagram(slices.Concat(newMessage(testKind, testSeq, nil), newMessage(testKind, testSeq, nil)), testKind, testSeq, func([]byte) error {
		calls++
		return stop
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1, calls)
}

// dialGeneric opens a generic netlink socket until the end of the test.
func dialGeneric(t *testing.T, limit time.Duration) *Conn {
	t.Helper()
	c, err := Dial(unix.NETLINK_GENERIC, limit)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, os.ErrPermission) {
		prerequisite.Missing(t, prerequisite.Netlink, "no netlink sockets: "+err.Error())
	}
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestTheKernelAnswers(t *testing.T) {
	c := dialGeneric(t, time.Minute)
	header := []byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}
	family := func(name string, flags uint16) (names []string, err error) {
		body := slices.Clone(header)
		if name != "" {
			body = Attribute(body, unix.CTRL_ATTR_FAMILY_NAME, Text(name))
		}
		err = c.Ask(unix.GENL_ID_CTRL, flags, body, func(body []byte) error {
			return Each(body[len(header):], func(kind uint16, value []byte) error {
				if kind == unix.CTRL_ATTR_FAMILY_NAME {
					names = append(names, ParseText(value))
				}
				return nil
			})
		})
		return names, err
	}
	all, err := family("", unix.NLM_F_DUMP)
	require.NoError(t, err)
	require.Contains(t, all, "nlctrl")
	one, err := family("nlctrl", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"nlctrl"}, one)
	_, err = family("no such family", 0)
	require.ErrorIs(t, err, unix.ENOENT)
	require.NoError(t, c.Send(unix.GENL_ID_CTRL, unix.NLM_F_DUMP, header), "its answer is not read")
	one, err = family("nlctrl", 0)
	require.NoError(t, err)
	require.Equal(t, []string{"nlctrl"}, one)
}

func TestALostAnswerIsNotAwaitedForEver(t *testing.T) {
	c := dialGeneric(t, 10*time.Millisecond)
	// The kernel does not answer a request whose type is reserved for netlink itself.
	require.NoError(t, c.Send(unix.NLMSG_NOOP, 0, nil))
	require.ErrorIs(t, c.receive(testKind, nil), os.ErrDeadlineExceeded)
}

func FuzzAnswersAreReadOrRefused(f *testing.F) {
	f.Add(newMessage(testKind, testSeq, Attribute(nil, 1, Text("mlx5_0"))))
	f.Add(newMessage(unix.NLMSG_DONE, testSeq, errnoBody(0)))
	f.Add(newMessage(unix.NLMSG_ERROR, testSeq, errnoBody(unix.ENODEV)))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = handleDatagram(raw, testKind, testSeq, func(body []byte) error { // must neither panic nor hang
			return Each(body, func(_ uint16, value []byte) error {
				_, _ = ParseText(value), ParseWord(value)
				return nil
			})
		})
	})
}
