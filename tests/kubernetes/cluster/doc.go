// Package cluster runs the servers of a Kubernetes cluster for tests: etcd, the API server, the controllers and the
// scheduler. A node is only an object there: pods are admitted, created and scheduled, and no container runs.
package cluster
