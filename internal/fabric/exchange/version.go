package exchange

import (
	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/sys/sanitize"
)

// versions are those of the conversation that a side talks. A new one is for what a side must not ignore; all else is added.
type versions struct{ least, most uint32 }

// ownVersions are those of this release.
var ownVersions = versions{least: 1, most: 1}

// featureSessions is the bit of a side that names sessions: in Held, in Lacking, and in a State and the answer to it.
const featureSessions = 1

// features are the bits of what this release can do beyond its version.
const features = featureSessions

// common returns the highest version of both, and false if there is none.
func (v versions) common(o versions) (uint32, bool) {
	c := min(v.most, o.most)
	return c, c >= v.least && c >= o.least
}

// greeting returns the greeting of a host.
func (v versions) greeting(host, digest string) *proto.Greeting {
	return &proto.Greeting{Least: v.least, Most: v.most, Features: features, Host: sanitize.UTF8(host), Digest: sanitize.UTF8(digest)}
}
