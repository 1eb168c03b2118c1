package nldev

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func childObject(kind Kind, number, parent uint32, thread int) Object {
	return Object{Kind: kind, Number: number, Thread: thread, Parent: parent, HasParent: true}
}

func TestTheHolderIsTheCreatorOrThatOfAParent(t *testing.T) {
	first, ended := Object{Kind: Contexts, Number: 0, Thread: 10}, Object{Kind: Contexts, Number: 1}
	objects := []Object{
		childObject(QueuePairs, 17, 0, 12),
		childObject(QueuePairs, 18, 0, 0),
		childObject(QueuePairs, 19, 1, 0),
		childObject(QueuePairs, 20, 2, 0),
		childObject(QueuePairs, 21, 9, 0),
		childObject(SharedReceiveQueues, 3, 1, 0),
		childObject(CompletionQueues, 4, 0, 0),
		childObject(CompletionQueues, 5, 1, 0),
		childObject(ProtectionDomains, 0, 0, 11),
		childObject(ProtectionDomains, 1, 0, 0),
		childObject(ProtectionDomains, 2, 1, 0),
		{Kind: QueuePairs, Number: 1, Kernel: "ib_core"},
		{Kind: QueuePairs, Number: 0},
		first, ended,
	}
	require.Equal(t, []Holder{
		{Thread: 12},        // its own thread
		{Thread: 11},        // that of the domain
		{Thread: 10},        // that of the context, as its domain's has ended
		{},                  // all have ended
		{},                  // the domain is missing
		{Thread: 10},        // a shared receive queue, by domain and context
		{Thread: 10},        // a completion queue, by its context
		{},                  // a completion queue whose context's thread has ended
		{Thread: 11},        // a domain
		{Thread: 10},        // a domain, by its context
		{},                  // a domain whose context's thread has ended
		{Kernel: "ib_core"}, // the kernel's
		{},                  // without parent: domain 0 is not meant
		{Thread: 10}, {},
	}, Holders(objects))
	require.Empty(t, Holders(nil))
}

func TestNoCircleOfParentsIsFollowed(t *testing.T) {
	require.Equal(t, []Holder{{}, {}}, Holders([]Object{
		{Kind: Contexts, Number: 0, HasParent: true}, {Kind: ProtectionDomains, Number: 0, HasParent: true},
	}))
}
