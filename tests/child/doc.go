// Package child runs programs that must not outlive the process that started
// them: the servers of tests and demonstrations.
package child
