// Package hostnodestest has host nodes and volumes for tests of those who look at them.
package hostnodestest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Label is the one that the host nodes of the control plane have.
const Label = "example.com/control-planes"

// Selector selects the host nodes of the control plane.
func Selector() map[string]string { return map[string]string{Label: ""} }

// Ready is a host node that is ready.
func Ready(name string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{Label: "", corev1.LabelHostname: name}}}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue},
	}
	return node
}

// OnNodes is the affinity of a volume that only nodes with some names can use.
func OnNodes(nodes ...string) *corev1.VolumeNodeAffinity {
	return WithTerms(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
	}})
}

// WithTerms is the affinity of a volume that nodes can use that one of some terms matches.
func WithTerms(terms ...corev1.NodeSelectorTerm) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}
