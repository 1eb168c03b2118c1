// Package packaged has the test of the package that is installed: in a lab
// guest, under real Telegraf as a user of its own. make try-packages runs it.
package packaged
