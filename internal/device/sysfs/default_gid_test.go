package sysfs

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultGIDIsLinkLocalAndOfVersionTwo(t *testing.T) {
	const v4, zero = "0000:0000:0000:0000:0000:ffff:0a00:0003", "0000:0000:0000:0000:0000:0000:0000:0000"
	const local = "fe80:0000:0000:0000:5054:00ff:fe12:3456"
	for _, c := range []struct {
		name  string
		gids  []string
		types []string
		index int
		ok    bool
	}{
		{"both versions", []string{local, local, v4, v4}, []string{"IB/RoCE v1", "RoCE v2", "IB/RoCE v1", "RoCE v2"}, 1, true},
		{"version one alone", []string{local, v4}, []string{"IB/RoCE v1", "RoCE v2"}, 0, true},
		{"an address of the host that is link local, too", []string{local, v4, local}, []string{"RoCE v2", "RoCE v2", "RoCE v2"}, 0, true},
		{"none, as after a change of the MAC address", []string{zero, v4}, []string{"", "RoCE v2"}, 0, false},
		{"no table", nil, nil, 0, false},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "class/infiniband/rdma0/ports/1")
		for i, gid := range c.gids {
			for file, text := range map[string]string{"gids": gid, "gid_attrs/types": c.types[i]} {
				path := filepath.Join(dir, file, strconv.Itoa(i))
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
			}
		}
		index, ok := New(root).DefaultGID("rdma0", 1)
		require.Equal(t, c.ok, ok, c.name)
		require.Equal(t, c.index, index, c.name)
	}
}
