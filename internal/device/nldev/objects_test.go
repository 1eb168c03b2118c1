package nldev

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
	"rdma_events/tests/prerequisite"
)

// Further attributes of an entry, which the package ignores: RDMA_NLDEV_ATTR_PAD, _DRIVER and _RES_RQPN.
const attrRQPN, attrPad, attrDriver = 22, 52, 53

func u32Attr(kind uint16, n uint32) []byte { return netlink.Attribute(nil, kind, netlink.Word(n)) }

func u8Attr(kind uint16, n byte) []byte { return netlink.Attribute(nil, kind, []byte{n}) }

func textAttr(kind uint16, s string) []byte { return netlink.Attribute(nil, kind, netlink.Text(s)) }

// deviceHandle returns the attributes at the start of each part (fill_nldev_handle).
func deviceHandle() []byte {
	return slices.Concat(u32Attr(attrDevIndex, 3), textAttr(attrDevName, "mlx5_0"))
}

// The entries, in the order of fill_res_{ctx,pd,cq,srq,qp}_entry.
func ctxEntry(number, thread uint32) []byte {
	return nest(attrCtxEntry, u32Attr(attrCtxN, number), ownerAttr(thread, ""))
}

func pdEntry(number, ctx, thread uint32) []byte {
	return nest(attrPDEntry, nest(attrPad), nest(attrUseCount, u64Value(4)), u32Attr(attrPDN, number), u32Attr(attrCtxN, ctx), ownerAttr(thread, ""))
}

func cqEntry(number, ctx, thread uint32) []byte {
	return nest(attrCQEntry, u32Attr(37, 256), nest(attrUseCount, u64Value(1)), u8Attr(76, 0), u32Attr(attrCQN, number), u32Attr(attrCtxN,
		ctx), ownerAttr(thread, ""))
}

// srqEntry includes the queue pairs that use the shared receive queue, in a table like the table of a list of queue pairs.
func srqEntry(number, pd, thread uint32) []byte {
	pairs := nest(attrQP|unix.NLA_F_NESTED, nest(attrQPEntry|unix.NLA_F_NESTED, u32Attr(attrLQPN, 77)))
	return nest(attrSRQEntry, u32Attr(attrSRQN, number), u8Attr(attrType, 0), u32Attr(attrPDN, pd), pairs, ownerAttr(thread, ""))
}

func qpEntry(number, pd, thread uint32, state byte) []byte {
	return nest(attrQPEntry, u32Attr(attrPortIndex, 1), u32Attr(attrLQPN, number), u32Attr(attrPDN, pd), ownerAttr(thread, ""),
		u32Attr(attrRQPN, 9), u8Attr(attrType, 2), u8Attr(attrState, state), nest(attrDriver, textAttr(54, "sqe_cnt")))
}

// gsiEntry is the entry of the kernel's management queue pair of a port.
func gsiEntry(port uint32) []byte {
	return nest(attrQPEntry, u32Attr(attrPortIndex, port), u32Attr(attrLQPN, 1), ownerAttr(0, "ib_core"), u8Attr(attrType, ibQPTGSI), u8Attr(attrState, 3))
}

func ownerAttr(thread uint32, module string) []byte {
	switch {
	case module != "":
		return textAttr(attrKernName, module)
	case thread != 0:
		return u32Attr(attrPID, thread)
	}
	return nil
}

// readParts reads the parts of a list like Dump.
func readParts(t testing.TB, kind Kind, parts ...[]byte) ([]Object, error) {
	t.Helper()
	var got []Object
	l, err := newListing(kind, func(o Object) error {
		got = append(got, o)
		return nil
	})
	require.NoError(t, err)
	for _, p := range parts {
		if err := l.readPart(p); err != nil {
			return got, err
		}
	}
	return got, nil
}

func TestObjectsAreThoseOfTheList(t *testing.T) {
	for _, test := range []struct {
		kind Kind
		part []byte
		want []Object
	}{
		{Contexts, nest(attrCtx, ctxEntry(0, 4711), nest(attrCtxEntry), ctxEntry(5, 0)), []Object{
			{Kind: Contexts, Number: 0, Thread: 4711, State: StateUnknown}, {Kind: Contexts, Number: 5, State: StateUnknown},
		}},
		{ProtectionDomains, nest(attrPD, nest(attrPDEntry, u32Attr(attrPDN, 0), ownerAttr(0, "ib_core")), pdEntry(2, 5, 4711)), []Object{
			{Kind: ProtectionDomains, Kernel: "ib_core", State: StateUnknown},
			{Kind: ProtectionDomains, Number: 2, Thread: 4711, Parent: 5, HasParent: true, State: StateUnknown},
		}},
		{CompletionQueues, nest(attrCQ, cqEntry(3, 0, 4711)), []Object{
			{Kind: CompletionQueues, Number: 3, Thread: 4711, HasParent: true, State: StateUnknown},
		}},
		{SharedReceiveQueues, nest(attrSRQ, srqEntry(4, 2, 0)), []Object{
			{Kind: SharedReceiveQueues, Number: 4, Parent: 2, HasParent: true, State: StateUnknown},
		}},
		{QueuePairs, nest(attrQP, qpEntry(17, 2, 4712, 3), qpEntry(284, 2, 0, 6), gsiEntry(1), gsiEntry(2)), []Object{
			{Kind: QueuePairs, Number: 17, Thread: 4712, Parent: 2, HasParent: true, State: RTS},
			{Kind: QueuePairs, Number: 284, Parent: 2, HasParent: true, State: Error},
			{Kind: QueuePairs, Number: 1, Kernel: "ib_core", State: RTS},
			{Kind: QueuePairs, Number: 1, Kernel: "ib_core", State: RTS},
		}},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			got, err := readParts(t, test.kind, slices.Concat(deviceHandle(), test.part))
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	_, err := newListing("mr", nil)
	require.EqualError(t, err, `there is no list of "mr"`)
}

// A part of a list, byte by byte: fill_nldev_handle and two entries by fill_res_ctx_entry.
func TestTheBytesOfTheKernelAreRead(t *testing.T) {
	raw := []byte{
		8, 0, 1, 0, 3, 0, 0, 0, // DEV_INDEX
		10, 0, 2, 0, 'r', 'd', 'm', 'a', '0', 0, 0, 0, // DEV_NAME
		36, 0, 86, 0, // RES_CTX
		20, 0, 87, 0, 8, 0, 64, 0, 1, 0, 0, 0, 8, 0, 28, 0, 0x67, 0x12, 0, 0, // one whose thread runs
		12, 0, 87, 0, 8, 0, 64, 0, 2, 0, 0, 0, // one whose thread ended
	}
	if netlink.Word(1)[0] != 1 {
		t.Skip("needs a machine with the low byte first")
	}
	got, err := readParts(t, Contexts, raw)
	require.NoError(t, err)
	require.Equal(t, []Object{
		{Kind: Contexts, Number: 1, Thread: 0x1267, State: StateUnknown}, {Kind: Contexts, Number: 2, State: StateUnknown},
	}, got)
}

func TestAnObjectThatThePartsRepeatComesOnce(t *testing.T) {
	got, err := readParts(t, QueuePairs,
		nest(attrQP, qpEntry(17, 2, 1, 3), qpEntry(18, 2, 1, 3), qpEntry(19, 2, 1, 3)),
		nest(attrQP, qpEntry(18, 2, 1, 3), qpEntry(19, 2, 1, 3), qpEntry(20, 2, 1, 3), gsiEntry(1)),
		nest(attrQP, gsiEntry(1), gsiEntry(2)))
	require.NoError(t, err)
	var numbers []uint32
	for _, o := range got {
		numbers = append(numbers, o.Number)
	}
	require.Equal(t, []uint32{17, 18, 19, 20, 1, 1}, numbers)
}

func TestNoMoreIsListedThanTheLimit(t *testing.T) {
	for kind, most := range map[Kind]int{QueuePairs: 4096, CompletionQueues: 16384} {
		l, err := newListing(kind, func(Object) error { return nil })
		require.NoError(t, err)
		for n := range most {
			require.NoError(t, l.readObject(u32Attr(l.numberAttr, uint32(n))))
		}
		require.ErrorIs(t, l.readObject(u32Attr(l.numberAttr, uint32(most))), ErrTooMany)
	}
}

func TestAListThatCostsTooMuchIsNotAskedFor(t *testing.T) {
	for _, test := range []struct {
		kind   Kind
		counts map[string]uint64
		want   string
	}{
		{QueuePairs, map[string]uint64{"qp": 4096, "cq": 1 << 40}, ""},
		{QueuePairs, map[string]uint64{"qp": 4097}, "too many objects: 4097, at most 4096 are listed"},
		{CompletionQueues, map[string]uint64{"cq": 16384}, ""},
		{Contexts, map[string]uint64{"ctx": 16385}, "too many objects: 16385, at most 16384 are listed"},
		{ProtectionDomains, map[string]uint64{"pd": 1<<64 - 1}, "too many objects: 18446744073709551615, at most 16384 are listed"},
		{SharedReceiveQueues, map[string]uint64{"srq": 64, "qp": 16384}, ""},
		{SharedReceiveQueues, map[string]uint64{"srq": 64, "qp": 16385}, "too many objects: 64, with 16385 queue pairs to search for each"},
		{SharedReceiveQueues, map[string]uint64{"qp": 1 << 40}, ""},
		{SharedReceiveQueues, nil, ""},
	} {
		err := checkCost(test.kind, test.counts)
		if test.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrTooMany)
		require.EqualError(t, err, test.want)
	}
}

func TestAKernelWithoutProgressIsLeft(t *testing.T) {
	empty := slices.Concat(deviceHandle(), nest(attrSRQ))
	parts := slices.Repeat([][]byte{empty}, maxEmpty-1)
	got, err := readParts(t, SharedReceiveQueues, slices.Concat(parts, [][]byte{nest(attrSRQ, srqEntry(4, 2, 1))}, parts)...)
	require.NoError(t, err)
	require.Len(t, got, 1)
	_, err = readParts(t, SharedReceiveQueues, slices.Repeat([][]byte{empty}, maxEmpty)...)
	require.ErrorIs(t, err, ErrEndless)
}

func TestAnErrorOfTheReaderEndsTheList(t *testing.T) {
	calls, stop := 0, errors.New("stop")
	l, err := newListing(QueuePairs, func(Object) error {
		calls++
		return stop
	})
	require.NoError(t, err)
	require.ErrorIs(t, l.readPart(nest(attrQP, qpEntry(17, 2, 1, 3), qpEntry(18, 2, 1, 3))), stop)
	require.Equal(t, 1, calls)
	require.ErrorIs(t, l.failed, stop)
}

func TestNoObjectComesOfADamagedEntry(t *testing.T) {
	entry := qpEntry(17, 2, 4711, 3)
	// A cut between two attributes leaves a valid entry with fewer attributes.
	for n := 4; n < len(entry); n++ {
		got, err := readParts(t, QueuePairs, nest(attrQP, nest(attrQPEntry, entry[4:n])))
		if err != nil {
			require.Empty(t, got, "%d bytes", n)
		}
		for _, o := range got {
			require.EqualValues(t, 17, o.Number)
			require.Contains(t, []State{RTS, StateUnknown}, o.State)
		}
	}
	whole := nest(attrQP, entry)
	for n := 1; n < len(whole); n++ {
		got, err := readParts(t, QueuePairs, whole[:n])
		require.ErrorContains(t, err, "read answer", "%d bytes", n)
		require.Empty(t, got)
	}
	for name, fields := range map[string][]byte{
		"without a number":    u32Attr(attrPID, 1),
		"with a short number": nest(attrLQPN, []byte{1, 2}),
		"with a single byte":  u8Attr(attrLQPN, 1),
	} {
		got, err := readParts(t, QueuePairs, nest(attrQP, nest(attrQPEntry, fields)))
		require.NoError(t, err, name)
		require.Empty(t, got, name)
	}
	got, err := readParts(t, QueuePairs, nest(attrQP, nest(attrQPEntry, u32Attr(attrLQPN, 5), nest(attrState), nest(attrType), nest(attrPDN, []byte{1}))))
	require.NoError(t, err)
	require.Equal(t, []Object{{Kind: QueuePairs, Number: 5, State: StateUnknown}}, got)
}

func TestStatesHaveTheirNames(t *testing.T) {
	var names []string
	for s := Reset; s <= Error+1; s++ {
		names = append(names, s.String())
	}
	require.Equal(t, []string{"reset", "init", "rtr", "rts", "sqd", "sqe", "error", "state_7"}, names)
	require.Equal(t, "unknown", StateUnknown.String())
}

func TestAMissingDeviceIsNamed(t *testing.T) {
	err := Dump("rdma_events0", QueuePairs, func(Object) error { return nil })
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPERM) {
		prerequisite.Missing(t, prerequisite.Netlink, "no netlink sockets: "+err.Error())
	}
	if errors.Is(err, ErrUnsupported) {
		t.Skip("no ib_core in this machine's kernel, which answers RDMA netlink: ", err)
	}
	require.ErrorIs(t, err, ErrNoDevice)
	require.EqualError(t, err, "ask RDMA netlink for each qp of rdma_events0: no such RDMA device")
}

func FuzzListsAreReadOrRefused(f *testing.F) {
	f.Add(nest(attrQP, qpEntry(17, 2, 4711, 3), gsiEntry(1)))
	f.Add(nest(attrSRQ, srqEntry(4, 2, 1)))
	f.Add(nest(attrPD, pdEntry(2, 5, 4711)))
	f.Add(slices.Concat(deviceHandle(), nest(attrCQ, cqEntry(3, 0, 4711)), nest(attrCtx, ctxEntry(0, 1), nest(attrCtxEntry))))
	kinds := []Kind{Contexts, ProtectionDomains, CompletionQueues, SharedReceiveQueues, QueuePairs}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all []Object
		for _, kind := range kinds {
			objects, _ := readParts(t, kind, raw, raw)
			for i, o := range objects {
				require.Equal(t, kind, o.Kind)
				require.NotEmpty(t, o.State.String())
				if i > 0 && kind != QueuePairs {
					require.Greater(t, o.Number, objects[i-1].Number)
				}
			}
			all = append(all, objects...)
		}
		require.Len(t, Holders(all), len(all))
	})
}
