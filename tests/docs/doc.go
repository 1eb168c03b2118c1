// Package docs finds the commands that the project's documents tell people to
// type, for the test that runs them.
package docs
