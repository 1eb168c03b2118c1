package native

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A read of a counter in sysfs can send a command to the device, and can hang as a
// call into the library can. Here the counter is a named pipe without a writer, so
// that the process that opens it hangs.
func TestHungReadOfSysfsIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "counting0")
	counter := filepath.Join(w.dir, "class/infiniband/counting0/ports/1/counters/link_downed")
	w.must(os.MkdirAll(filepath.Dir(counter), 0o755))
	w.must(unix.Mkfifo(counter, 0o644))
	w.start()
	w.AwaitLog("worker of counting0 was stuck in read sysfs and was killed", time.Minute)
	w.must(os.Remove(counter)) // the next worker may hang in it already
	points := w.awaitProbing("counting0")
	if n := lastPoint(points, "rdma_device", "counting0").Int("worker_restarts"); n < 1 {
		t.Errorf("want another worker, got %d restarts", n)
	}
	w.requireUndisturbed()
}
