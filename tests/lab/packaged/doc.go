// Package packaged has the test of the Debian package. The package is installed in
// a lab guest and runs under real Telegraf, which has its own user. make
// try-packages runs the test.
package packaged
