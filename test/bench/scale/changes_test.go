package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestChangesOfControlPlanesAreShownByWhatTheySayTheMostFrequentFirst(t *testing.T) {
	of := func(name string, status metav1.ConditionStatus, message string) *controlplanev1.KOKControlPlane {
		c := &controlplanev1.KOKControlPlane{}
		c.Name, c.ResourceVersion = name, message
		c.Status.Conditions = []metav1.Condition{{Type: "Healthy", Status: status, Message: message}, {Type: "Steady", Status: metav1.ConditionTrue}}
		return c
	}
	counted := &changes{}
	for _, name := range []string{"t1", "t2"} {
		counted.add(of(name, metav1.ConditionTrue, ""), of(name, metav1.ConditionFalse, name+"-0 does not answer"))
	}
	before, after := of("t3", metav1.ConditionTrue, ""), of("t3", metav1.ConditionTrue, "")
	after.Spec.Version, after.Labels, after.Status.ObservedGeneration = "v1.36.4", map[string]string{"a": "b"}, 2
	counted.add(before, after)
	if got, want := counted.take(), `changes: 2 Healthy False "…-0 does not answer"; 1 metadata; 1 spec; 1 status`; got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
	if got := counted.take(); got != "changes: none" {
		t.Errorf("once taken it says %s", got)
	}
}
