//go:build tools

// Package detector pins the version of node-problem-detector that the tests of the manifests run. It is a module of its own,
// so that neither the plugin's module nor Kubernetes' depends on it.
package detector

import _ "k8s.io/node-problem-detector/cmd/nodeproblemdetector"
