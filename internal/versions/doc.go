// Package versions knows the Kubernetes versions that control planes can run: how they are written,
// which minors are supported, what goes with each, and which upgrades are allowed. The supported
// minors are data: versions.yaml, which is built in, or a ConfigMap in its place; everything here is pure.
package versions
