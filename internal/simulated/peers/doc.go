// Package peers implements exchange.Network for simulated hosts, without a real network. The answers of a host are computed from the world
// of package simulated/devices. They agree with the facts of that world's Fabrics, even if those run in other processes.
package peers
