// Package controllers reconciles KOKControlPlanes: API object → desired state → apply → observe →
// status.
//
// # The steps
//
// A step starts when all those that it comes after are done, or postponed something. While one of them waits or fails, the
// third column takes its place. It adopts no new rendering of a component. "-" does nothing: what was last written in the
// tenant is looked after by the probes, until the manager restarts.
//
//	step                     after                       while one before it waits or fails
//	key-material             -                           -
//	version                  key-material                -
//	ports                    version                     claimPorts as a whole, once something was made
//	endpoint                 ports                       applyServices as a whole, once something was made and ports are known
//	certificates             key-material, endpoint      -
//	kubeconfig               key-material, endpoint      -
//	etcd-data                certificates                keepEtcd
//	etcd-events              certificates                keepEtcd
//	kube-apiserver           etcd-data, etcd-events      keepComponent
//	kube-controller-manager  kube-apiserver              keepComponent
//	kube-scheduler           kube-apiserver              keepComponent
//	load-balancer            kube-apiserver              ensureLoadBalancer as a whole, once it is known where API servers are reached
//	tenant-objects           kube-apiserver, kubeconfig  -
//	addons                   tenant-objects              -
//
// # Where an upgrade waits
//
// Condition Reconciled has the messages, if nothing else is said; docs/upgrading.md says what a person does. Files are
// those of controlplane/.
//
//	what is told                                 where it is decided
//	the upgrade from … to … waits: …             controllers/kubelets.go: Reconciler.chooseVersion, scope.leaves
//	no node of the host cluster matches …        workloads/workloads.go: State.Waiting
//	… has … of … pods ready and needs …          workloads/workloads.go: State.Waiting; controllers/etcdmembers.go: scope.stateOf
//	… rolls out: …                               workloads/workloads.go: State.Waiting
//	others are upgraded when … is: of … pods …   workloads/workloads.go: State.Waiting
//	the four above, for each component           controllers/apply.go: applyRendering
//	others are upgraded when … is: pod …         controllers/held.go: olderPods
//	… takes no change while …                    controllers/held.go: heldBack, scope.held, scope.growing
//	… takes no change while it loses members     controllers/held.go: heldWhileLosing
//	StatefulSet … was deleted and …              controllers/stopping.go: stoppingPods
//	no message: an even number of members votes  controllers/etcdmembers.go: renderedEtcd, scope.evenVoters
//	… stays as it is, for its members keep …     controllers/volatile.go: holdsStoredRendering, replacesPods
//	RollingOut: … are up to date: …              etcd/rollout/rollout.go: State.blocks; etcd/operator/rollout.go: cluster.unsettled
//	what the host cluster must still give        controllers/services.go: Reconciler.applyServices
//	Secret … has an unsafe kubeconfig            controllers/keymaterial.go: Reconciler.ensureKubeconfig
//	the tenant's API at … is being probed        controllers/tenantobjects.go: Reconciler.applyTenantObjects
//	the addons are being written …               controllers/addons.go: Reconciler.applyAddons
//
// Only chooseVersion postpones: the steps after it go on, at the version that runs. Every other wait stops the steps after
// it. Within applyEtcd the order is: files, stoppingPods, renderedEtcd, applyRendering, heldWhileLosing. Within
// applyComponent it is: rendered, applyRendering, heldBack, olderPods.
package controllers
