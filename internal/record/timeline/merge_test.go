package timeline

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func recordStream(host string, failure error, seconds ...int64) iter.Seq2[StoredRecord, error] {
	return func(yield func(StoredRecord, error) bool) {
		for i, second := range seconds {
			if !yield(StoredRecord{Host: host, Sequence: uint64(i), Record: Record{Time: time.Unix(second, 0)}}, nil) {
				return
			}
		}
		if failure != nil {
			yield(StoredRecord{}, failure)
		}
	}
}

func TestMergeKeepsTheOrderOfEachHost(t *testing.T) {
	var order []string
	streams := []iter.Seq2[StoredRecord, error]{recordStream("a", nil, 10, 30, 5, 40), recordStream("b", nil, 10, 20, 35), recordStream("c", nil)}
	for k, err := range Merge(streams) {
		require.NoError(t, err)
		order = append(order, k.Host+string(rune('0'+k.Sequence)))
	}
	require.Equal(t, []string{"a0", "b0", "b1", "a1", "a2", "b2", "a3"}, order, "the clock of a was set back")
}

func TestMergeEndsWithAnErrorAndWithItsReader(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	for _, err := range Merge([]iter.Seq2[StoredRecord, error]{recordStream("a", broken, 10), recordStream("b", nil, 20, 30)}) {
		if n++; n == 2 {
			require.ErrorIs(t, err, broken)
		}
	}
	require.Equal(t, 2, n)
	for range Merge([]iter.Seq2[StoredRecord, error]{recordStream("a", nil, 10, 20), recordStream("b", nil, 20, 30)}) {
		break
	}
}
