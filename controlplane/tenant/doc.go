// Package tenant gives a tenant the objects that kubeadm would have given it, so that machines join
// by kubeadm and by our own bootstrap provider alike: the discovery ConfigMap cluster-info, the
// configuration of the cluster and of kubelets, and the rights of bootstrap tokens, nodes and
// kube-apiserver. Names, groups and rules are kubeadm's.
//
// [Objects] says what there should be, without a client or a clock; [Apply] makes it so and writes
// only what differs.
package tenant
