// Package kubernetes reads the manifests in packaging/kubernetes for tests: of the
// privileges that they request, of their schema, and of a container that runs as
// they specify.
package kubernetes
