package exchange

import (
	"rdma_events/internal/fabric/exchange/proto"
	"rdma_events/internal/sys/sanitize"
)

// versions is the range of protocol versions that a side supports. A new version is needed only for changes that the other side must not
// ignore; other changes add fields and messages.
type versions struct{ least, most uint32 }

// ownVersions is the range that this release supports.
var ownVersions = versions{least: 1, most: 1}

// featureSessions is the feature bit of a side that names sessions: in Held, in Lacking, and in State requests and their answers.
const featureSessions = 1

// features has the feature bits of this release.
const features = featureSessions

// highestCommon returns the highest version that both sides support. It returns false if there is none.
func (v versions) highestCommon(o versions) (uint32, bool) {
	c := min(v.most, o.most)
	return c, c >= v.least && c >= o.least
}

// newGreeting returns the greeting of a host.
func (v versions) newGreeting(host, digest string) *proto.Greeting {
	return &proto.Greeting{Least: v.least, Most: v.most, Features: features, Host: sanitize.UTF8(host), Digest: sanitize.UTF8(digest)}
}
