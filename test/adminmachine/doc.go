// Package adminmachine tests an administrator's machine as docs/api-access.md has it: a booted system with the package of a
// release, the commands of the page, and real kube-apiservers on another host, which fail.
package adminmachine
