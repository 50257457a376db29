package components_test

import (
	"testing"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
)

// kube-apiserver reads its audit policy once: without new pods another one would never take effect.
func TestAnotherAuditPolicyMakesNewPods(t *testing.T) {
	const other = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"
	hashes := map[string]string{}
	for name, audit := range map[string]*controlplanev1.AuditSpec{
		"none": nil, "the default": {MaxSizeMB: 20}, "the default, with larger files": {MaxSizeMB: 40}, "another": {MaxSizeMB: 20, Policy: other},
	} {
		in := variants["default"]()
		in.Spec.KubeAPIServer.Audit = audit
		objects, err := kubeapiserver.Component.Objects(kubeapiserver.Component.Inputs(in))
		if err != nil {
			t.Fatal(err)
		}
		hashes[name] = podIn(t, objects).Annotations[kubeapiserver.AuditPolicyAnnotation]
	}
	if hashes["none"] != "" || hashes["the default"] == "" || hashes["another"] == "" || hashes["another"] == hashes["the default"] ||
		hashes["the default, with larger files"] != hashes["the default"] {
		t.Errorf("the pods say %v", hashes)
	}
}
