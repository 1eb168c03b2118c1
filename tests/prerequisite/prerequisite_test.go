package prerequisite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder records a skip, and panics in place of a failure.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Skip(args ...any)                  { r.end = "skip: " + fmt.Sprint(args...) }
func (r *recorder) Fatalf(format string, args ...any) { panic("fail: " + fmt.Sprintf(format, args...)) }

func TestMissingPrerequisiteFailsWhereItIsRequired(t *testing.T) {
	r := &recorder{}
	t.Setenv(variable, "image,root")
	Missing(r, Netlink, "no sockets")
	require.Equal(t, "skip: no sockets", r.end)
	require.PanicsWithValue(t, `fail: missing, and RDMA_EVENTS_REQUIRE has "root": no root`, func() { Missing(r, Root, "no root") })
}
