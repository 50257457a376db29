// Package operator looks after etcd clusters, beside reconciles: it observes how each one is, and takes one step when
// its members, their data, their pods or its leader are not where they should be.
//
// A reconcile hands over a [Task] with [Operator.Operate], never waits, and gets the last [Report]. The operator has a
// queue of its own, keyed by control plane and etcd cluster: it never works twice at once for one key. Each run is:
//
//	observe → compare hashes, now and then → decide → act, at most once → observe again
//
// [cluster.observe], [cluster.compare] and the deciders only read; act.go has every write. The pure packages recovery, membership, space,
// rollout and lead decide, in this order. What they are told of members, pods, volumes, host nodes and files is read from etcd
// and the host cluster's API server in the same run, never from a cache. The spec, addresses, and whether the cluster is
// bootstrapped and rolls out are in the [Task]: the reconcile has them from caches and from status.
// In the end, pods on cordoned nodes are told whether a drain may evict them.
//
// # What it writes
//
//	write                               when                                    decided by  if the process dies after it
//	annotation of a member's Service    a member is lost, all others work       recovery    the next run goes on with the replacement
//	MoveLeader                          the lost member leads                   recovery    the next run removes the member
//	MemberRemove                        a replacement has begun                 recovery    etcd lists it no more: what is left is deleted
//	delete a PersistentVolumeClaim      its lost member was removed             recovery    the next run finds it stopping, or gone
//	delete a pod                        its lost member was removed             recovery    the StatefulSet makes it anew, blank
//	delete a pod                        it came before its learner could join   recovery    the StatefulSet makes it anew, and it joins
//	delete a pod                        etcd fails after prepare looked at it   recovery    the StatefulSet makes it anew, and prepare looks again
//	MemberAddAsLearner                  fewer members than desired              membership  etcd lists the learner: its pod is made, then it is promoted
//	MemberPromote                       a learner has all data                  membership  etcd lists a voter
//	MoveLeader                          the leader is about to be removed       membership  the next run removes the member
//	MemberRemove                        more members than desired               membership  etcd lists it no more: its pod stops, its volume is deleted
//	delete a PersistentVolumeClaim      its member was removed, its pod is gone membership  the next run finds no claim
//	MoveLeader                          the pod of the leader has to go         rollout     the next run deletes its pod
//	delete a pod                        it is not as its StatefulSet wants it,  rollout     the StatefulSet makes it anew
//	                                    or its database is mostly free pages
//	MoveLeader                          the node of the leader is cordoned      lead        the next run finds another leader
//	Compact                             etcd has reached its quota              space       the next run finds no old versions
//	Defragment, of a member             its file is too large                   space       the member has its old file, or the new one
//	AlarmDisarm                         all files are small enough              space       etcd takes writes
//	condition ReadyToDrain of a pod     its node is cordoned, or no more        lead        the next run writes it again, if it differs
//	an Event of the control plane       after a step                            -           the Event is missing
//
// Three things are remembered between runs: what comparisons of the members' data have found (compare.go), that all waits for host
// nodes that are not heard from (quiet.go), and when the database files of members were written anew (space.go). Else each run begins with
// what etcd and the host cluster say then. A manager that starts anew compares and reads anew.
//
// # What wakes it
//
//   - A reconcile that saw something new: pods, members, a cordon, another number of replicas.
//   - Time: after [FirstRetry], then twice as long up to [Interval], while something is wrong, waits or was done;
//     every [Interval] while all is well.
//
// The control plane is reconciled when the text of a report differs from the one before. A change of the members, or of
// a pod, makes it differ; who leads is in no status.
//
// # What ends a run
//
// What a reconcile saw newly ends an observation, which then starts anew. It does not end a step: the next run waits for
// that, which [stepTimeout] bounds. Two things end a step at once:
//
//   - [Operator.Forget]: the control plane is deleted, paused or another's, its host cluster's kubeconfig is withdrawn, or its
//     keys are gone or cannot be used, so that a person must act. Nobody may write any more.
//   - Another identity: other CAs for members or for their clients, other addresses of members, or another connection to the host
//     cluster. The step was decided for members that were reached or trusted in another way.
//
// A write that is cut off was done or was not: the next run reads which.
//
// # Why one loop
//
// An observer and an operator with a queue each would be two clients of one etcd. The reconcile could not tell
// a health from before a step from one after it. The StatefulSet gets as many pods as etcd lists members, so an old list
// would stop a pod that was just added. In one loop nothing comes between an observation, the step that it leads to, and the
// observation after it.
package operator
