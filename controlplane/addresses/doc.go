// Package addresses decides where a control plane is reached: at which addresses its Services are, where its API servers on the pod
// network are exposed, and what its endpoint is. What was given once is kept in a [Record], because certificates, etcd members,
// kubeconfigs and workers name it. All but the record and the list of Services is pure; the step endpoint applies the Services
// (controlplane/controllers/services.go).
package addresses
