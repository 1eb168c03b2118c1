//go:build lab

package lab

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rdma_events/internal/record/recorder"
)

var powerCuts = flag.Int("power.cuts", 1, "power cuts of a guest that records; make test-full does 20")

// cutScript has the recorder's own test program write to a disk, and cuts the power of the guest after some seconds: the
// kernel resets the machine without writing anything.
const cutScript = `set -e
modprobe -a crc32c_generic virtio_blk ext4
mkdir -p /tmp/disk
mount /dev/vda /tmp/disk
tail -f /dev/null | RDMA_EVENTS_TEST_RECORDER=/tmp/disk/records %s | tee /tmp/synced &
until [ -s /tmp/synced ]; do sleep 0.1; done
sleep %.1f
echo b >/proc/sysrq-trigger
while :; do :; done
`

// Every record that the disk has acknowledged is there after the power was cut, no record before it is missing, and
// nothing but the newest segment's end is damaged. The next boot goes on in the same directory.
func TestRecordsOutliveAPowerCut(t *testing.T) {
	img := bootableImage(t)
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	writer := filepath.Join(dir, "build", "guests", "recorder.test")
	runTool(t, dir, "go", "test", "-c", "-o", writer, "./internal/record/recorder")
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, 128<<20); err != nil {
		t.Fatal(err)
	}
	runTool(t, dir, "mkfs.ext4", "-q", "-F", disk)
	random := rand.New(rand.NewPCG(uint64(*powerCuts), 5))
	torn := 0
	for i := range *powerCuts {
		synced := cutPower(t, img, writer, disk, 1+3*random.Float64())
		records, skipped := recordsOf(t, dir, disk)
		if len(records) == 0 {
			t.Fatalf("cut %d: no record is left, %d were synced", i, synced)
		}
		for n := range records[1:] {
			if records[n+1].Sequence != records[n].Sequence+1 {
				t.Fatalf("cut %d: record %d follows %d", i, records[n+1].Sequence, records[n].Sequence)
			}
		}
		if last := records[len(records)-1].Sequence; last < synced {
			t.Errorf("cut %d: the last record is %d, and %d was synced", i, last, synced)
		}
		if len(skipped) > 0 {
			torn++
		}
		if len(skipped) > 1 || len(skipped) == 1 && !errors.Is(skipped[0].Err, recorder.ErrTail) {
			t.Errorf("cut %d: more than the newest end is damaged: %v", i, skipped)
		}
		t.Logf("cut %d: %d records up to %d, %d synced before the cut, skipped %v", i, len(records), records[len(records)-1].Sequence, synced, skipped)
	}
	t.Logf("%d of %d cuts were within a write", torn, *powerCuts)
}

// cutPower boots a guest that records until its power is cut, and returns the last sequence that it had printed as synced.
func cutPower(t *testing.T, img *Image, writer, disk string, after float64) uint64 {
	t.Helper()
	var out bytes.Buffer
	_, err := img.Run(t.Context(), Job{
		Path: "/bin/sh", Args: []string{"-c", fmt.Sprintf(cutScript, writer, after)}, Disk: disk, Stdout: &out,
	})
	if !errors.Is(err, ErrLost) {
		t.Fatalf("want a guest whose power is cut, got %v:\n%s", err, out.String())
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 2 {
		t.Fatalf("the writer printed nothing: %q", out.String())
	}
	synced, err := strconv.ParseUint(lines[len(lines)-2], 10, 64) // the last line may be cut
	if err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	return synced
}

// recordsOf reads the records on a disk as the next boot finds them, after the file system's journal was replayed.
func recordsOf(t *testing.T, dir, disk string) (records []recorder.Record, skipped []recorder.Skip) {
	t.Helper()
	runTool(t, dir, "e2fsck", "-f", "-y", disk)
	to := t.TempDir()
	runTool(t, dir, "debugfs", "-R", "rdump /records "+to, disk)
	r, err := recorder.NewReader(filepath.Join(to, "records"), recorder.Filter{}, func(s recorder.Skip) { skipped = append(skipped, s) })
	if err != nil {
		t.Fatal(err)
	}
	for one, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, one)
	}
	return records, skipped
}

// runTool runs a program of the host. e2fsck exits with status 1 when it has replayed a journal.
func runTool(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	path, err := findTool(name)
	if err != nil {
		t.Fatalf("%v; run: make setup", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if name == "e2fsck" && errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
