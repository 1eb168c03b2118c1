package timeline

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/recorder"
)

func TestAnEventIsPrintedWithTheChangeThatFollowsIt(t *testing.T) {
	event := StoredRecord{Sequence: 1, Record: Record{Time: at(0), Kind: KindEvent, Device: "mlx5_0", Port: 1, Event: "port_err", Count: 1}}
	change := StoredRecord{Sequence: 2, Record: Record{Time: at(1), Kind: KindState, Device: "mlx5_0", Port: 1,
		StateFrom: "active", StateTo: "down", Witness: verbs.WitnessEvent}}
	other := StoredRecord{Sequence: 3, Record: Record{Time: at(2), Kind: KindAttr, Device: "mlx5_0", Attr: &Attr{"firmware", "1", "2"}}}

	var text, objects bytes.Buffer
	printers := []*Printer{{Out: &text}, {Out: &objects, JSON: true}}
	for _, p := range printers {
		require.NoError(t, p.Add(event))
	}
	require.Empty(t, text.String(), "the event waits for its change")
	for _, p := range printers {
		for _, k := range []StoredRecord{change, other, event} {
			require.NoError(t, p.Add(k))
		}
	}
	require.Empty(t, text.String(), "a line with an earlier time may still come")
	for _, p := range printers {
		require.NoError(t, p.Flush())
		require.NoError(t, p.Flush())
	}
	require.Equal(t, 4, strings.Count(text.String(), "\n"), "a day and three records")
	require.Contains(t, text.String(), "active > down")
	require.Equal(t, 3, strings.Count(objects.String(), "\n"))
	require.Contains(t, objects.String(), `"state_to":"down"`, "the event includes its change")
}

// Evidence is recorded after events that followed its trigger.
func TestLinesAreInTheOrderOfTheirTimes(t *testing.T) {
	one := func(sequence uint64, ms int, what string) StoredRecord {
		return StoredRecord{Sequence: sequence, Record: Record{Time: at(ms), Kind: KindLog, Level: "info", Text: what}}
	}
	var text bytes.Buffer
	p := &Printer{Out: &text}
	add := func(k StoredRecord) { require.NoError(t, p.Add(k)) }
	order := func() (words string) {
		for line := range strings.Lines(text.String()) {
			if _, word, ok := strings.Cut(strings.TrimSpace(line), "info: "); ok {
				words += word + " "
			}
		}
		return words
	}
	add(one(1, 100, "first"))
	add(one(2, 1200, "third"))
	add(one(3, 200, "second"))
	add(one(4, 200, "as-early"))
	require.Empty(t, order())
	add(one(5, 7500, "later"))
	require.Equal(t, "first second as-early ", order(), "no earlier one comes after 7 s")
	start := one(6, 0, "")
	start.Kind, start.Text, start.Start = recorder.KindStart, "", &recorder.Start{}
	add(start)
	add(one(7, 50, "anew"))
	require.NoError(t, p.Flush())
	require.Equal(t, "first second as-early third later anew ", order(), "the clock may begin anew with a recording")

	text.Reset()
	for i := range 3 * orderedLines {
		add(one(uint64(i), i, "many"))
	}
	require.Equal(t, 2*orderedLines, strings.Count(order(), "many"), "only few lines wait")
}
