// Package standin plays what a host cluster has beside its API server and etcd, for the benchmark of the manager's scale and for
// nothing else. It is a simulation. It plays the controllers of workloads, the scheduler and kubelets, and what a manager asks of
// tenants: the members of etcd and the API.
//
// A workload gets the pods that its template describes, with the volumes of its claims. Each pod is made, then runs, then is ready,
// in three writes; in a real host cluster there are more, and seconds between them. The status of workloads follows. A pod
// runs when what stands in for its program listens at the address of its Service.
//
// A member of etcd answers by etcd's own protocol, with the certificate that the manager gave to it: how it is, who the members
// are, no alarm, and one hash for all. Nothing can be changed. A tenant's API is ready, and keeps objects that are applied, read and
// deleted, whole as they were sent: it checks nothing and merges nothing. A watch begins with what is there, and tells what comes.
//
// Tenants are such APIs alone, for the benchmark of the bootstrap manager. What they answer about kinds is what an API server answers.
//
// It deletes no pods, follows no other template, fails nothing, and knows no garbage collector, no endpoints and no events of pods.
package standin
