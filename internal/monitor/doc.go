// Package monitor is the host's picture of all devices: it keeps a supervised
// worker for each, owns the counters and port states that outlive workers, and
// hands out what is to be emitted as plain values. It knows no Telegraf.
package monitor
