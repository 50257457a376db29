// Package e2e tests the project from end to end, on a real host cluster: the lab of this repository,
// or one that is given by its kubeconfig. Its tests carry the build tag e2e.
//
// Specs are labelled: "gating" is one journey of two tenants from creation to deletion, which every
// change has to pass; "full" are the long waits and the faults, of which make test-faults runs those with "etcd_faults";
// "host_versions" and "host_upgrade" want labs of their own. What needs the lab's hosts is skipped on another host cluster, with that reason.
//
// A failure leaves logs and objects in one folder below out/artifacts and prints where.
package e2e
