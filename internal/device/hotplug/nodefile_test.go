package hotplug

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// nodeFiles makes a /dev with files of nodes, and a list of mounts in which DEV stands for that /dev.
func nodeFiles(t *testing.T, mounts string, nodes ...string) NodeFiles {
	t.Helper()
	root := t.TempDir()
	n := NodeFiles{Dev: filepath.Join(root, "dev"), Proc: filepath.Join(root, "proc")}
	require.NoError(t, os.MkdirAll(filepath.Join(n.Dev, "infiniband"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(n.Proc, "self"), 0o755))
	if mounts != "" {
		list := []byte(strings.ReplaceAll(mounts, "DEV", n.Dev))
		require.NoError(t, os.WriteFile(filepath.Join(n.Proc, "self/mountinfo"), list, 0o600))
	}
	for _, node := range nodes {
		require.NoError(t, os.WriteFile(filepath.Join(n.Dev, "infiniband", node), nil, 0o600))
	}
	return n
}

const (
	rootMount     = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
	hostDev       = rootMount + "26 21 0:5 / DEV rw,nosuid shared:2 - devtmpfs udev rw,size=16G\n27 26 0:24 / DEV/shm rw - tmpfs tmpfs rw\n"
	udevDev       = rootMount + "26 21 0:5 / DEV rw - tmpfs udev rw\n"
	containerDev  = rootMount + "31 21 0:60 / DEV rw,nosuid - tmpfs tmpfs rw,mode=755\n"
	hostPathOfDev = containerDev + "32 31 0:5 /infiniband DEV/infiniband rw,nosuid master:2 - devtmpfs udev rw\n"
)

func TestAbsenceOfANodeIsAFaultOfTheHostAlone(t *testing.T) {
	for name, row := range map[string]struct {
		mounts string
		nodes  []string
		want   Absence
	}{
		"there":                                   {hostDev, []string{"uverbs1"}, AbsentNot},
		"deleted on a host":                       {hostDev, []string{"uverbs0"}, AbsentMissing},
		"the only one of a host":                  {hostDev, nil, AbsentMissing},
		"no devtmpfs":                             {udevDev, []string{"uverbs0"}, AbsentMissing},
		"a container that was given another":      {containerDev, []string{"uverbs0", "rdma_cm"}, AbsentHidden},
		"a container that was given none":         {containerDev, []string{"rdma_cm"}, AbsentNot},
		"a container with the host's /infiniband": {hostPathOfDev, []string{"uverbs0"}, AbsentMissing},
		"a container's /dev over the host's":      {hostDev + containerDev, []string{"uverbs0"}, AbsentHidden},
		"a /dev of an image":                      {rootMount, []string{"uverbs0"}, AbsentHidden},
		"nothing is known":                        {"", []string{"uverbs0"}, AbsentNot},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, nodeFiles(t, row.mounts, row.nodes...).Absence("uverbs1"))
		})
	}
}

func TestWatcherReportsThatANodeIsMissing(t *testing.T) {
	testInBubble(t, func(t *testing.T, h *host, u *uevents) {
		h.add("rxe0", "uverbs0", guid, 0)
		files := nodeFiles(t, hostDev)
		c := h.config(u.open)
		c.DevRoot, c.ProcRoot = files.Dev, files.Proc
		w := watchHost(t, c)
		missing := rxe0
		missing.NodeMissing = true
		w.expect(time.Second, []verbs.Found{missing})
		require.NoError(t, os.WriteFile(filepath.Join(files.Dev, "infiniband/uverbs0"), nil, 0o600))
		w.expect(time.Minute, []verbs.Found{rxe0})
	})
}
