package standin

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// WriteSysfs creates the files of a device below root, a directory that stands in
// for /sys. node is the device's uverbs node, as in "uverbs0".
func WriteSysfs(root, device, node string) error {
	dir := filepath.Join(root, "class/infiniband", device)
	files := map[string]string{"node_type": "1: CA\n", "node_guid": "5254:00ff:fe12:3456\n"}
	if err := writeFiles(dir, files); err != nil {
		return err
	}
	if err := WritePort(root, device, 1); err != nil {
		return err
	}
	return WriteFile(filepath.Join(root, "class/infiniband_verbs", node, "ibdev"), device+"\n")
}

// WritePort creates the files of a port of a device, with its P_Key and GID tables. WriteSysfs creates the files of port 1.
func WritePort(root, device string, port int) error {
	return writeFiles(filepath.Join(root, "class/infiniband", device, "ports", strconv.Itoa(port)), map[string]string{
		"pkeys/0":           "0x7fff\n",
		"pkeys/1":           "0xffff\n",
		"pkeys/2":           "0x8001\n",
		"gids/0":            fmt.Sprintf("fe80:0000:0000:0000:0000:0000:0000:%x001\n", port-1),
		"gids/1":            fmt.Sprintf("fe80:0000:0000:0000:0000:0000:0000:%x002\n", port-1),
		"gids/2":            fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a00:%x003\n", port-1),
		"gids/3":            fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a00:%x004\n", port-1),
		"gids/4":            "0000:0000:0000:0000:0000:0000:0000:0000\n",
		"gid_attrs/types/0": "IB/RoCE v1\n",
		"gid_attrs/types/1": "RoCE v2\n",
		"gid_attrs/types/2": "IB/RoCE v1\n",
		"gid_attrs/types/3": "RoCE v2\n",
	})
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		if err := WriteFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

// WriteFile writes text to a file, and creates the directories above it.
func WriteFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of %s: %w", path, err)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
