//go:build tools

// Package servers pins the version of Kubernetes that the tests of the manifests run. It is a module of its own, so that the
// plugin's module does not depend on it. Kubernetes' own go.mod replaces its libraries by directories; this one names their
// versions instead.
package servers

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
