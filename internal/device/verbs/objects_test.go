package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestObjectsAreAddedUpByHolder(t *testing.T) {
	var tally verbs.ObjectTally
	tally.Add(7, false, verbs.ObjectPD, 0)
	tally.Add(0, true, verbs.ObjectQP, 3)
	tally.Add(7, false, verbs.ObjectQP, 6)
	tally.Add(7, false, verbs.ObjectQP, 255)
	tally.Add(0, false, verbs.ObjectCQ, 0)
	require.Equal(t, []verbs.Holder{
		{
			Thread: 7, Counts: [verbs.ObjectKinds]uint32{verbs.ObjectPD: 1, verbs.ObjectQP: 2},
			States: [verbs.QPStates]uint32{6: 1},
		},
		{Kernel: true, Counts: [verbs.ObjectKinds]uint32{verbs.ObjectQP: 1}, States: [verbs.QPStates]uint32{3: 1}},
		{Counts: [verbs.ObjectKinds]uint32{verbs.ObjectCQ: 1}},
	}, tally.Holders())
}

func TestAboveTheLimitOfHoldersObjectsAreNobodys(t *testing.T) {
	var tally verbs.ObjectTally
	for thread := range 2 * verbs.MaxHolders {
		tally.Add(thread+1, false, verbs.ObjectContext, 0)
	}
	holders := tally.Holders()
	require.Len(t, holders, verbs.MaxHolders)
	require.Equal(t, verbs.Holder{Counts: [verbs.ObjectKinds]uint32{verbs.MaxHolders + 1}}, holders[verbs.MaxHolders-1])
}
