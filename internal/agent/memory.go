package agent

import (
	"log/slog"
	"os"
	"time"

	"rdma_events/internal/device/memory"
)

// openMemory opens what this host remembers, in the directory that systemd made for the service, else in the recorder's. Without a
// directory, and for simulated devices, the memory begins now and ends with the plugin.
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
		log.Warn("memory: " + err.Error())
	}
	return m
}
