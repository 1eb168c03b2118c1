// Package kubernetes reads the manifests in packaging/kubernetes, for tests: of
// what they ask of a cluster, of their schema, and of a container that is run as
// they say.
package kubernetes
