// Package versions knows the Kubernetes versions that control planes can run: how they are written,
// which minors are supported, what goes with each, and which upgrades are allowed. The supported
// minors are data, in versions.yaml; everything here is pure.
package versions
