package netlink

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAttributesAreReadAsTheyAreWritten(t *testing.T) {
	inner := Attribute(Attribute(nil, 1, Text("abc")), 2, Word(4711))
	raw := Attribute(Attribute(nil, 3|unix.NLA_F_NESTED, inner), 4, []byte{9})
	require.Zero(t, len(raw)%4)
	var kinds []uint16
	collect := func(kind uint16, value []byte) error {
		kinds = append(kinds, kind)
		switch kind {
		case 1:
			require.Equal(t, "abc", ParseText(value))
		case 2:
			require.EqualValues(t, 4711, ParseWord(value))
		case 4:
			require.Equal(t, []byte{9}, value)
		}
		return nil
	}
	require.NoError(t, Each(raw, func(kind uint16, value []byte) error {
		if kind == 3 {
			require.NoError(t, Each(value, collect))
		}
		return collect(kind, value)
	}))
	require.Equal(t, []uint16{1, 2, 3, 4}, kinds)
	require.Equal(t, "abc", ParseText([]byte("abc")), "without its zero byte")
	require.Zero(t, ParseWord([]byte{1, 2, 3}))
}

func TestAnAttributeThatIsCutOffIsAnError(t *testing.T) {
	whole := Attribute(nil, 1, Word(1))
	for n := 1; n < len(whole); n++ {
		require.ErrorContains(t, Each(whole[:n], nil), "an attribute of", "%d bytes", n)
	}
	require.NoError(t, Each(Attribute(nil, 1, []byte{1})[:5], func(uint16, []byte) error { return nil }), "only the padding")
	require.ErrorContains(t, Each([]byte{3, 0, 1, 0}, nil), "an attribute of 3 bytes in 4")
}

func TestAnErrorEndsTheAttributes(t *testing.T) {
	calls, stop := 0, errors.New("stop")
	err := Each(Attribute(Attribute(nil, 1, nil), 2, nil), func(uint16, []byte) error {
		calls++
		return stop
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, 1, calls)
}
