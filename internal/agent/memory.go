package agent

import (
	"log/slog"
	"os"
	"time"

	"rdma_events/internal/device/memory"
)

// openMemory opens the memory of the devices that this host has had. It is stored in the directory that systemd made
// for the service, else in the recorder's directory. Without a directory, and for simulated devices, the memory starts
// empty and is lost when the plugin ends.
func (c *Config) openMemory(log *slog.Logger) *memory.Memory {
	dir := stateDirectory(os.Getenv("STATE_DIRECTORY"))
	if dir == "" {
		dir = c.Recorder.Directory
	}
	if dir == "" || c.Simulated() {
		return memory.New(time.Now)
	}
	m, err := memory.Open(dir, memory.Machine(), time.Now)
	if err != nil {
		log.Warn("device memory: open failed", "error", err)
	}
	return m
}
