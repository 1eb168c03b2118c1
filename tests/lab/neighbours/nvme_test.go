//go:build guest

package neighbours

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"rdma_events/tests/lab/guest"
)

const (
	nvmeSubsystem = "/sys/kernel/config/nvmet/subsystems/" + nvmeName
	nvmePort      = "/sys/kernel/config/nvmet/ports/1"
	nvmeName      = "nqn.2026-11.test:ram"
	nvmeService   = "4420"
	ramDisk       = "/dev/ram0"
	// nvmeSize is how many bytes are written: all of a RAM disk of the default size.
	nvmeSize = 16 << 20
)

// TestNVMeOverRDMA has the kernel export a RAM disk by NVMe over RDMA and connect to it on the same device. What is written through the
// fabric is on the RAM disk, and is read back.
func TestNVMeOverRDMA(t *testing.T) {
	guest.RequireGuest(t)
	guest.Modprobe(t, "nvmet-rdma", "nvme-rdma", "brd")
	if err := unix.Mount("none", "/sys/kernel/config", "configfs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatalf("mount configfs: %v", err)
	}
	inEachCompany(t, func(t *testing.T, s *stage) {
		exportNVMe(t, s.address)
		controller := connectNVMe(t, s.address)
		if s.plugin != nil {
			objects := s.requireObjects(t, "NVMe over RDMA is connected")
			if held := objects["kernel"]; held["qps_rts"] < 2 || held["cqs"] < 2 || held["pds"] < 2 {
				t.Errorf("want objects of both ends in the kernel, got %v", held)
			}
		}
		requireReadBack(t, controller)
		writeFile(t, filepath.Join("/sys/class/nvme", controller, "delete_controller"), "1")
	})
}

// exportNVMe makes a target of the RAM disk, until the end of the test.
func exportNVMe(t *testing.T, address string) {
	t.Helper()
	namespace, link := filepath.Join(nvmeSubsystem, "namespaces/1"), filepath.Join(nvmePort, "subsystems", nvmeName)
	t.Cleanup(func() {
		for _, path := range []string{link, nvmePort, namespace, nvmeSubsystem} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("take the target away: %v", err)
			}
		}
	})
	for _, dir := range []string{nvmeSubsystem, namespace, nvmePort} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatalf("make the target: %v", err)
		}
	}
	writeFile(t, filepath.Join(nvmeSubsystem, "attr_allow_any_host"), "1")
	writeFile(t, filepath.Join(namespace, "device_path"), ramDisk)
	writeFile(t, filepath.Join(namespace, "enable"), "1")
	writeFile(t, filepath.Join(nvmePort, "addr_trtype"), "rdma")
	writeFile(t, filepath.Join(nvmePort, "addr_adrfam"), "ipv4")
	writeFile(t, filepath.Join(nvmePort, "addr_traddr"), address)
	writeFile(t, filepath.Join(nvmePort, "addr_trsvcid"), nvmeService)
	if err := os.Symlink(nvmeSubsystem, link); err != nil {
		t.Fatalf("export the target: %v", err)
	}
}

// connectNVMe connects to the target and returns the name of the controller, as in nvme0.
func connectNVMe(t *testing.T, address string) string {
	t.Helper()
	fabrics, err := os.OpenFile("/dev/nvme-fabrics", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fabrics.Close()
	options := fmt.Sprintf("transport=rdma,traddr=%s,trsvcid=%s,nqn=%s,nr_io_queues=2", address, nvmeService, nvmeName)
	if _, err := fabrics.WriteString(options); err != nil {
		t.Fatalf("connect to the target: %v", err)
	}
	answer := make([]byte, 256)
	n, err := fabrics.Read(answer)
	if err != nil {
		t.Fatalf("read the controller's number: %v", err)
	}
	var instance, id int
	if _, err := fmt.Sscanf(string(answer[:n]), "instance=%d,cntlid=%d", &instance, &id); err != nil {
		t.Fatalf("parse %q: %v", answer[:n], err)
	}
	return fmt.Sprintf("nvme%d", instance)
}

// requireReadBack writes the whole namespace, and requires that what is read of it and of the RAM disk is what was written.
func requireReadBack(t *testing.T, controller string) {
	t.Helper()
	var disk string
	guest.Eventually(t, "the namespace is there", soon, func() bool {
		found, err := filepath.Glob("/dev/" + controller + "n*")
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			disk = found[0]
		}
		return disk != ""
	})
	const chunk = 256 << 10
	written, read := newDirectBuffer(t, chunk), newDirectBuffer(t, chunk)
	random := rand.NewChaCha8([32]byte{38})
	over, below := openDirect(t, disk), openDirect(t, ramDisk)
	defer over.Close()
	defer below.Close()
	for at := int64(0); at < nvmeSize; at += chunk {
		_, _ = random.Read(written) // it returns no error
		if _, err := over.WriteAt(written, at); err != nil {
			t.Fatalf("write to %s: %v", disk, err)
		}
		for _, f := range []*os.File{over, below} {
			if _, err := f.ReadAt(read, at); err != nil {
				t.Fatalf("read from %s: %v", f.Name(), err)
			}
			if !bytes.Equal(written, read) {
				t.Fatalf("%s at %d: not what was written", f.Name(), at)
			}
		}
	}
}

// newDirectBuffer returns memory aligned for direct input and output (O_DIRECT). It is freed at the end of the test.
func newDirectBuffer(t *testing.T, size int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatalf("map memory: %v", err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) }) // the process ends soon
	return b
}

func openDirect(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}
