// Package memory remembers which devices a host has had and which of their ports were active, across restarts of the plugin and of
// the host. The memory is a small file in the plugin's state directory, shared by all plugins of the host and by
// `rdma-events forget`.
package memory
