// Package addresses decides where a control plane is reached: the addresses of its Services, where its API servers on the pod network are
// exposed, and its endpoint. A [Record] keeps each address from the first time, because certificates, etcd members, kubeconfigs and workers
// name it. All is pure, except that the package reads and writes the record and lists Services. The step endpoint applies the Services
// (controlplane/controllers/services.go).
package addresses
