// Package patches changes rendered objects as spec.patches wants them, and refuses what a control plane
// does not survive: the tables in host.go and tenant.go say which fields a patch may change, and pods.go
// what may be added to pods. It is pure: webhooks call it to refuse, controllers to apply.
package patches
