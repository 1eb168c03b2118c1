// Package docs finds the commands that the project's documents ask people to
// type, for the test that runs them.
package docs
