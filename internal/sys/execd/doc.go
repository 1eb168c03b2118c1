// Package execd implements the plugin's side of Telegraf's inputs.execd: prompts
// come on standard input, line protocol goes to standard output, and log lines
// with levels go to standard error. Telegraf may stop reading at any time, and
// data that it has not read is lost when the process exits. Therefore every wait
// in this package can be interrupted, and only the writer of a stream waits for
// its reader. The package uses no Telegraf types.
package execd
