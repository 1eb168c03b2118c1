// Package child runs programs that must not outlive who started them: servers
// of tests and demonstrations.
package child
