package wake

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSendsBeforeAReceiveAreOneWakeUp(t *testing.T) {
	s := New()
	require.Empty(t, s)
	s.Send()
	s.Send()
	require.Len(t, s, 1)
	<-s
	require.Empty(t, s)
}
