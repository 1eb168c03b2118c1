// Package monitor holds the host's state of all devices. It keeps a supervised worker
// for each device, owns the counters and port states that outlive workers, and returns
// the points to be emitted as plain values. It does not depend on Telegraf.
package monitor
