// Package expect decides whether a port should be up, and how fast its link should be. It uses the configuration, the ports that
// this host remembers, and the time for which a link has waited to become active. It is pure.
package expect
