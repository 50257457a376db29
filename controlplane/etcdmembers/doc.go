// Package etcdmembers looks after the members of a control plane's etcd clusters. Reconciles follow what etcd listed last: as many pods
// as members, a file for the one that joins, and nothing of those that were removed. The operator changes the members, beside reconciles.
//
//	Members.Apply             files, pods and volumes of a cluster, by a new rendering if nothing holds it (apply.go)
//	Members.Keep              pods and volumes by the stored rendering, while a step before waits or fails (apply.go)
//	Members.Beyond            members that the spec asks for no more, and of which something is left (services.go)
//	Members.DeleteServices    deletes the Services of members that were removed (services.go)
//	Operate                   hands clusters to the operator, and returns its last reports (operate.go)
//	Cordoned                  finds members on cordoned host nodes (operate.go)
//
// A reconcile fills in [Members], or [Facts] for the operator. This package changes neither a control plane nor its input. Package
// etcdclusters says what spec and status tell of etcd clusters, etcd/membership/doc.go has all writes while one grows.
package etcdmembers
