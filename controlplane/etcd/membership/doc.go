// Package membership decides how an etcd cluster gets from the members that it has to the desired
// members, one step at a time. It is pure: package operator reads the state a moment before, takes the
// step, and calls again. Nothing is remembered, so that the operator may be killed between any two steps.
//
// # What it promises
//
//   - A member joins as a learner, which does not vote, and is promoted when it has all data.
//   - A voter is added or removed only while all that stay answer: the quorum is never at risk.
//   - A member whose volume is lost cannot vote for what it has forgotten: before one is promoted, its
//     configuration file no longer lets it start without data.
//   - A volume of a member that was removed is deleted before another member gets its name. Package recovery does that for
//     members that it replaces, and says which are [State.Blank].
//   - Once the wanted number of members votes, it never falls below: a missing member is added before a surplus one is removed.
//     While the data of a voter is not that of the majority, no other one goes.
//   - While the host cluster does not hear from a host node, pods on it cannot stop. Such a pod delays the return of its own member. No
//     other member waits for it.
//   - API servers know a member only while it votes: they are told of new ones when all have joined, and
//     of those that leave before they do.
//
// # What is written while a cluster grows
//
// These are all writes for etcd-data, in their order, where nothing is left of earlier members and nobody edited anything;
// etcd-events has the same. 7 and 13 are written to etcd, status and Events to the management cluster, and all else to the host
// cluster. The operator does 7 and 13, and may be at 7 before 5 or 6, never before 4. Reconciles do all else. 7 to
// 14 come again for each new member. A file is open while its member may start without data, because the file names the
// others (components/etcd/config.go); else it is closed. "by" are the functions that write or decide, in files of
// controlplane/. "then" is what the next run finds, and what it does further, when the process dies after the write: no
// write comes twice. An Event comes after the
// write beside it, and is missing when the process dies in between. Status is patched more often than here, for its messages.
// Beside 1 to 3 the changed spec is recorded in ControllerRevision <cluster>-spec-<n> (history/keeper.go: Keeper.Record).
//
//	1  Services of all new members, together
//	     by    controllers/services.go: Reconciler.applyServices; adoption/adopter.go: Adopter.ApplyAll
//	     then  the Services, and records their addresses
//	2  ControllerRevision <cluster>-services-<n>
//	     by    addresses/record.go: Record.Write; revision/revision.go: Store.Rendering
//	     then  the record, and keeps to it
//	3  Secret <cluster>-etcd-data-certs: leaves of all new members
//	     by    controllers/keymaterial.go: Reconciler.ensureCertificates; certificates/leaves.go: Issuer.EnsureLeaves
//	     then  the leaves
//	4  ConfigMap <cluster>-etcd-data-config: their files, closed
//	     by    etcdmembers/files.go: Members.files; components/etcd/config.go: Cluster.Config
//	     then  the files; no pod reads them yet
//	5  PodDisruptionBudget, where there is one: no eviction while fewer vote than wanted
//	     by    etcdmembers/rendering.go: Members.renderingOf, spareNone
//	     then  the budget
//	6  status: another number of replicas, Event ScaleStarted
//	     by    status/status.go: setEtcd; events/events.go: scaleOfEtcd
//	     then  the new number; an Event may be missing
//	7  MemberAddAsLearner, Event EtcdMembersChanged
//	     by    etcd/operator/act.go: cluster.changeMembers; etcd/change.go: Change
//	     then  a learner that has not started, and waits for its pod
//	8  status: the member is Joining
//	     by    status/members.go: listedMembers
//	     then  the member in status; before that, in etcd
//	9  ConfigMap: its file, opened
//	     by    etcdmembers/files.go: Members.files; etcdclusters/etcdclusters.go: Membership
//	     then  the open file, and adds the replica
//	10 StatefulSet: one replica more, which is no new rendering, so that no other member restarts
//	     by    etcdmembers/rendering.go: Members.renderingOf; etcdclusters/members.go: Pods
//	     then  the replica; Kubernetes makes volume and pod, and the member joins
//	11 status: the member is a Learner
//	     by    status/members.go: listedMembers
//	     then  the member in status; before that, in etcd
//	12 ConfigMap: its file, closed
//	     by    etcdmembers/files.go: Members.files
//	     then  the closed file, and promotes
//	13 MemberPromote, Event EtcdMembersChanged
//	     by    etcd/operator/act.go: cluster.changeMembers; etcd/operator/facts.go: cluster.openMembers
//	     then  a voter, and adds the next member: 7
//	14 status: the member is a Voter; after the last, Event ScaleFinished
//	     by    status/members.go: listedMembers; events/events.go: scaleOfEtcd
//	     then  the member in status; an Event may be missing
//	15 PodDisruptionBudget: one eviction at a time again
//	     by    etcdmembers/rendering.go: Members.renderingOf; etcdclusters/members.go: LackVoters
//	     then  the budget
//	16 ControllerRevision <cluster>-kube-apiserver-<n>
//	     by    adoption/component.go: Adopter.Apply; adoption/adopter.go: Adopter.Rendering; etcdclusters/members.go: Growing
//	     then  the revision, and applies it
//	17 DaemonSet or Deployment of kube-apiserver, Event RolloutStarted once status is written
//	     by    adoption/adopter.go: Adopter.ApplyAs; events/events.go: startsOf
//	     then  API servers that restart, one by one, once for all members
//
// After 2 and after 16 the oldest ControllerRevision is deleted where there are more than ten (revision/revision.go:
// Store.prune); when the process dies before that, the next new one does it. A cluster that was bootstrapped with one member gets
// its PodDisruptionBudget at 10, which allows no eviction until all vote. While members are gained no component but etcd adopts a
// new rendering, and with an even number of voters etcd does not either. Reconciles know of members from status alone: the
// operator's report wakes one that writes status, and the one after that follows it.
package membership
