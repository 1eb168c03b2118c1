package native

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestPKeyIndexIsReadOnceAndAfterEachChange(t *testing.T) {
	var k pkeyIndexes
	reads := 0
	get := func(port, index int, err error, while func()) int {
		got, _ := k.get(port, func() (int, error) {
			reads++
			while()
			return index, err
		})
		return got
	}
	nothing := func() {}
	require.Zero(t, get(1, 7, unix.EMFILE, nothing), "an error is not kept")
	require.Equal(t, 3, get(1, 3, nil, nothing))
	require.Equal(t, 3, get(1, 4, nil, nothing))
	require.Equal(t, 5, get(2, 5, nil, nothing), "each port has its own")
	require.Equal(t, 3, reads)
	k.forget()
	require.Equal(t, 6, get(1, 6, nil, k.forget), "the table changes while it is read")
	require.Equal(t, 8, get(1, 8, nil, nothing))
	require.Equal(t, 8, get(1, 9, nil, nothing))
	require.Equal(t, 5, reads)
}
