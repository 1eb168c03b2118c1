// Package execd is the other side of Telegraf's inputs.execd: standard input
// that prompts, standard output that carries line protocol, standard error that
// carries leveled log lines. Telegraf may stop reading at any time, and what it
// has not read when the process exits is lost, so every wait here can be
// interrupted and nothing but the writer of a stream ever waits for its reader.
// No Telegraf type appears here.
package execd
