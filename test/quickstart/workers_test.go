package main

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
)

// site is a mirror that nobody asks; its authority has several lines, as all have.
var site = &mirror.Mirror{URL: "https://192.0.2.1:9443", CABundle: "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"}

// generated is an object of the template of the quickstart, as clusterctl fills it in.
func generated(t *testing.T, o *options, kind string, into client.Object) {
	t.Helper()
	template, err := os.ReadFile("../../templates/cluster-template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{"CLUSTER_NAME": "one", "NAMESPACE": "two", "KUBERNETES_VERSION": "v1.36.3", "WORKER_MACHINE_COUNT": "2"}
	if err := o.addVariables(variables); err != nil {
		t.Fatal(err)
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) { return variables[name], nil })
	if err != nil {
		t.Fatal(err)
	}
	objects, err := utilyaml.ToUnstructured(filled)
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		if objects[i].GetKind() != kind {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, into, true); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("the template has no %s", kind)
}

func TestWorkersInstallTheirSoftwareFromTheMirror(t *testing.T) {
	o := &options{lab: &lab.Lab{}, mirror: site}
	config, machine := &bootstrapv1.KOKConfigTemplate{}, &infrav1.IDCMachineTemplate{}
	generated(t, o, "KOKConfigTemplate", config)
	generated(t, o, "IDCMachineTemplate", machine)
	spec, labels := config.Spec.Template.Spec, machine.Spec.Template.Spec.HostSelector.MatchLabels
	if spec.Software.Mode != bootstrapv1.SoftwareDescribed {
		t.Errorf("the mode is %s", spec.Software.Mode)
	}
	if len(spec.RegistryMirrors) != 1 || spec.RegistryMirrors[0].Endpoints[0].URL != site.URL || spec.RegistryMirrors[0].Endpoints[0].CABundle != site.CABundle {
		t.Errorf("they have the mirrors %v", spec.RegistryMirrors)
	}
	if len(labels) != 1 || labels["example.com/system"] != system {
		t.Errorf("they are on hosts with the labels %v", labels)
	}
}
