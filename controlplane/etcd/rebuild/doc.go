// Package rebuild decides how the data etcd of a control plane that exists is founded anew: from a snapshot, or from the
// data of the one member that is left. It also decides whether the controller founds an etcd anew without a person: the data etcd
// in one of these ways, and the etcd with the events empty. It is pure: the controller reads the state, takes the step, and calls
// again. Why it is so: docs/decisions/etcd.md#a-restore-in-place-stops-all-that-knows-the-former-data.
//
// # A restore in place
//
//	Begin → Stop, until nothing runs that knows the former data → Found → Wait, until the seed answers → Finish
//	→ the other members join by packages membership and recovery, API servers start
//
// # What it promises
//
//   - Nothing stops before the request was judged: a snapshot that is missing, or a host node that is not heard from, is told, and
//     the control plane goes on as it was.
//   - Etcd is not founded while a majority of the former members may run: there are never two clusters that take writes.
//   - Data of former clusters never start again. Members learn the IDs of these clusters before they start, and put such data
//     aside. The ID that the new cluster will have is known beforehand, for etcd makes it of the peer URL and the token.
//   - Another request while one is under way begins from the start, also one for another survivor: members that did not begin have
//     their data. Once the seed answers, the restore is over, whatever is asked for by then, and the other request is judged anew.
//   - An older request than the last is refused: a manifest that nobody changed since, and that makes the object anew, restores
//     nothing again.
//
// # What is recorded
//
// The [Record] is in the host cluster, so that it outlives the status, the manager and a move of the Cluster. It is written
// before the step that it is about.
package rebuild
