// Package controllers reconciles KOKControlPlanes: API object → desired state → apply → observe →
// status.
//
// # The steps
//
// A step starts when all those that it comes after are done, or postponed something. While one of them waits or fails, the
// third column takes its place. It adopts no new rendering of a component. "-" does nothing. For tenant-objects and addons the
// probes look after what was last written, until the manager restarts.
//
//	step                     after                           while one before it waits or fails
//	history                  -                               -
//	key-material             -                               -
//	version                  key-material                    -
//	ports                    version                         claimPorts as a whole, once something was made
//	endpoint                 ports                           applyServices as a whole, once something was made and ports are known
//	restore                  key-material, endpoint          -
//	backup                   restore                         keepBackup
//	certificates             key-material, endpoint          -
//	kubeconfig               key-material, endpoint          -
//	etcd-data                history, certificates, backup   keepEtcd
//	etcd-events              history, certificates, backup   keepEtcd
//	kube-apiserver           etcd-data, etcd-events          keepComponent
//	kube-controller-manager  kube-apiserver                  keepComponent
//	kube-scheduler           kube-apiserver                  keepComponent
//	load-balancer            kube-apiserver                  ensureLoadBalancer as a whole, once it is known where API servers are reached
//	tenant-objects           kube-apiserver, kubeconfig      -
//	addons                   tenant-objects                  -
//
// What a component comes after is After of its description (components/kubeapiserver/kubeapiserver.go: Component;
// components/replicated.go: Replicated.Component; none for etcd). steps.go makes the graph of it (Reconciler.order, componentStep), and package flow runs it.
//
// # What an upgrade restarts
//
// When spec.version changes: both etcds side by side, each one member after the other, if the new rendering has another pod template. It
// has one if the version brings another image of etcd and spec.etcd.image names none, or if the provider was upgraded since etcd took a
// rendering. Even if no member restarts, all have to be available before the upgrade goes on. Then API servers, then controller-manager and
// scheduler side by side. Which member of etcd is next is etcd/rollout's; pods of the others are replaced by their
// DaemonSet or Deployment, as its updateStrategy says (components/<name>). In the tenant, kube-proxy then rolls out on all workers,
// and CoreDNS and konnectivity's agents do where the version brings another image of them. Kubelet and kok-apiserver-lb do not
// restart.
//
// # Where an upgrade waits
//
// Condition Reconciled has the messages, if nothing else is said; docs/upgrading.md says what a person does. Files are
// those of controlplane/.
//
//	what is told                                 where it is decided
//	the upgrade from … to … waits: …             controllers/kubelets.go: Reconciler.chooseVersion, scope.leaves; tenantprobes/kubelets.go: Keeper.Kubelets
//	no node of the host cluster matches …        workloads/workloads.go: State.Waiting
//	… has … of … pods ready and needs …          workloads/workloads.go: State.Waiting; etcdclusters/members.go: StateOf
//	… rolls out: …                               workloads/workloads.go: State.Waiting
//	others are upgraded when … is: of … pods …   workloads/workloads.go: State.Waiting; controllers/scope.go: scope.upgrading
//	the four above, for each component           adoption/adopter.go: Adopter.ApplyAs
//	others are upgraded when … is: pod …         adoption/held.go: Adopter.waitForOlderPods
//	… takes no change while …                    adoption/held.go: Adopter.waitWhileHeld, Adopter.WhyHeld; etcdclusters/members.go: Growing
//	… takes no change while it loses members     etcdmembers/apply.go: Members.heldWhileLosing
//	StatefulSet … was deleted and …              etcdmembers/stopping.go: Members.stoppingPods
//	(nothing) an even number of members votes    etcdmembers/rendering.go: Members.renderingOf; etcdclusters/members.go: EvenVoters
//	… stays as it is, for its members keep …     etcdmembers/volatile.go: Members.holdsStoredRendering, Members.replacesPods
//	RollingOut: … are up to date: …              etcd/rollout/rollout.go: State.blocks; etcd/operator/rollout.go: cluster.unsettled
//	what the host cluster must still give        controllers/services.go: Reconciler.applyServices; addresses/exposure.go: Exposed
//	spec cannot be recorded, and …               history/keeper.go: Keeper.findSpec
//	the present spec … to reach the cache        history/keeper.go: Keeper.Record
//	spec.etcd.restore.snapshot names …           controllers/backup.go: Reconciler.ensureBackup; restore/seed.go: Restorer.origin
//	EtcdRecovering: … is founded anew: …         restore/inplace.go: Restorer.InPlace; etcd/rebuild/rebuild.go: Decide
//	etcd-events is founded anew: …               restore/events.go: FormerEvents.Stop
//	… has restored its snapshot, and …           etcdmembers/apply.go: Members.Apply
//	Secret … has an unsafe kubeconfig            controllers/keymaterial.go: Reconciler.ensureKubeconfig
//	the tenant's API at … is being probed        controllers/tenant.go: Reconciler.applyTenantObjects; tenantprobes/machines.go: Keeper.ForMachines
//	the addons are being written …               controllers/tenant.go: Reconciler.applyAddons; tenantprobes/addons.go: Keeper.Addons
//
// Only chooseVersion postpones: the steps after it go on, at the version that runs. An even number of voters, and etcd that stays as
// it is, stop nothing by themselves. Every other wait stops the steps after it.
//
// The step of an etcd calls, in this order:
//
//	stopFormerEvents, then in etcdmembers.Members.Apply: files, stoppingPods, renderingOf, resizeVolumes, ApplyAs, heldWhileLosing
//
// The step of any other component is adoption.Adopter.Apply, and calls, in this order:
//
//	WhyHeld, Rendering (which takes no new rendering while WhyHeld says why), noteNotTaken, ApplyAs, waitWhileHeld, waitForOlderPods
package controllers
