package tenant

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestWhichClusterCAsPodsHave(t *testing.T) {
	for name, test := range map[string]struct{ present, dropped, says string }{
		"nothing yet":                   {"", "", "kube-system/kube-root-ca.crt does not have the new CA"},
		"the former one alone":          {pemOf("former"), "", "does not have the new CA"},
		"both":                          {pemOf("former", "new"), "", ""},
		"both, and the former one goes": {pemOf("former", "new"), pemOf("former"), "still has the former CA"},
		"the new one alone":             {pemOf("new"), pemOf("former"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: rootCAs.Namespace, Name: rootCAs.Name}, Data: map[string]string{"ca.crt": test.present},
			}).Build()
			lacks, err := LacksRootCAs(t.Context(), tenant, []byte(pemOf("new")), []byte(test.dropped))
			if err != nil || (lacks == "") != (test.says == "") || !strings.Contains(lacks, test.says) {
				t.Errorf("it says %q: %v", lacks, err)
			}
		})
	}
	if lacks, err := LacksRootCAs(t.Context(), fake.NewClientBuilder().Build(), []byte(pemOf("new")), nil); err != nil || lacks == "" {
		t.Errorf("without a ConfigMap it says %q: %v", lacks, err)
	}
}

func TestWhichClusterCAsJoiningMachinesHave(t *testing.T) {
	of := func(bundle string) *corev1.ConfigMap {
		made, err := clusterInfo(Settings{Server: "10.0.0.1:6443", CABundle: []byte(bundle)})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	broken := of("")
	broken.Data["kubeconfig"] = "{"
	for name, test := range map[string]struct {
		present *corev1.ConfigMap
		lacks   bool
	}{
		"the former one alone": {of(pemOf("former")), true},
		"both":                 {of(pemOf("former", "new")), false},
		"what nobody can read": {broken, true},
	} {
		t.Run(name, func(t *testing.T) {
			lacks, err := LacksJoiningCAs(t.Context(), fake.NewClientBuilder().WithObjects(test.present).Build(), []byte(pemOf("new")))
			if err != nil || (lacks != "") != test.lacks {
				t.Errorf("it says %q: %v", lacks, err)
			}
		})
	}
}
