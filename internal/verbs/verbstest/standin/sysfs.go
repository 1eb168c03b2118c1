package standin

import (
	"fmt"
	"os"
	"path/filepath"
)

// WriteSysfs makes the files of a device below root, a directory in place of /sys.
// node is the device's uverbs node, as in "uverbs0".
func WriteSysfs(root, device, node string) error {
	files := map[string]string{
		"node_type":                 "1: CA\n",
		"node_guid":                 "5254:00ff:fe12:3456\n",
		"ports/1/pkeys/0":           "0x7fff\n",
		"ports/1/pkeys/1":           "0xffff\n",
		"ports/1/pkeys/2":           "0x8001\n",
		"ports/1/gids/0":            "fe80:0000:0000:0000:0000:0000:0000:0001\n",
		"ports/1/gids/1":            "fe80:0000:0000:0000:0000:0000:0000:0002\n",
		"ports/1/gids/2":            "0000:0000:0000:0000:0000:ffff:0a00:0003\n",
		"ports/1/gids/3":            "0000:0000:0000:0000:0000:ffff:0a00:0004\n",
		"ports/1/gids/4":            "0000:0000:0000:0000:0000:0000:0000:0000\n",
		"ports/1/gid_attrs/types/0": "IB/RoCE v1\n",
		"ports/1/gid_attrs/types/1": "RoCE v2\n",
		"ports/1/gid_attrs/types/2": "IB/RoCE v1\n",
		"ports/1/gid_attrs/types/3": "RoCE v2\n",
	}
	for name, text := range files {
		if err := WriteFile(filepath.Join(root, "class/infiniband", device, name), text); err != nil {
			return err
		}
	}
	return WriteFile(filepath.Join(root, "class/infiniband_verbs", node, "ibdev"), device+"\n")
}

// WriteFile writes text to a file, and makes the directories above it.
func WriteFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
