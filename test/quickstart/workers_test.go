package main

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/mirror"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/scheme"
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

func TestWorkersAreWhatTheirNumberSays(t *testing.T) {
	for name, test := range map[string]struct {
		bare, preinstalled int
		mode               bootstrapv1.SoftwareMode
	}{
		"all have their software":  {0, 0, bootstrapv1.SoftwarePreinstalled},
		"one of them is bare":      {1, 1, bootstrapv1.SoftwareDescribed},
		"both of them are bare":    {2, 0, bootstrapv1.SoftwareDescribed},
		"what is so without flags": {bareWorkers, allWorkers - bareWorkers, bootstrapv1.SoftwareDescribed},
	} {
		t.Run(name, func(t *testing.T) {
			o := &options{lab: &lab.Lab{}, mirror: site, bare: test.bare}
			if err := o.checkWorkers(); err != nil {
				t.Fatal(err)
			}
			if got := o.preinstalled().Count; got != test.preinstalled {
				t.Errorf("beside bare ones there are %d", got)
			}
			config, machine := &bootstrapv1.KOKConfigTemplate{}, &infrav1.IDCMachineTemplate{}
			generated(t, o, "KOKConfigTemplate", config)
			generated(t, o, "IDCMachineTemplate", machine)
			spec, labels := config.Spec.Template.Spec, machine.Spec.Template.Spec.HostSelector.MatchLabels
			if spec.Software.Mode != test.mode {
				t.Errorf("the mode is %s", spec.Software.Mode)
			}
			if test.mode == bootstrapv1.SoftwarePreinstalled {
				if len(spec.RegistryMirrors) != 0 || len(labels) != 0 {
					t.Errorf("they have the mirrors %v, on hosts with the labels %v", spec.RegistryMirrors, labels)
				}
				return
			}
			if len(spec.RegistryMirrors) != 1 || spec.RegistryMirrors[0].Endpoints[0].URL != site.URL || spec.RegistryMirrors[0].Endpoints[0].CABundle != site.CABundle {
				t.Errorf("they have the mirrors %v", spec.RegistryMirrors)
			}
			if len(labels) != 1 || labels["example.com/system"] != system {
				t.Errorf("they are on hosts with the labels %v", labels)
			}
		})
	}
	for _, count := range []int{-1, allWorkers + 1} {
		if err := (&options{bare: count}).checkWorkers(); err == nil {
			t.Errorf("%d workers may be bare", count)
		}
	}
}

func TestATenantKeepsTheKindOfItsWorkers(t *testing.T) {
	of := func(mode bootstrapv1.SoftwareMode) *bootstrapv1.KOKConfigTemplate {
		template := &bootstrapv1.KOKConfigTemplate{}
		template.Namespace, template.Name = "two", "one-workers"
		template.Spec.Template.Spec.Software.Mode = mode
		return template
	}
	for name, test := range map[string]struct {
		there *bootstrapv1.KOKConfigTemplate
		bare  int
		fails bool
	}{
		"a new tenant has any":                              {nil, 2, false},
		"one with bare workers keeps them":                  {of(bootstrapv1.SoftwareDescribed), 1, false},
		"one with bare workers gets no others":              {of(bootstrapv1.SoftwareDescribed), 0, true},
		"one whose workers have their software is not bare": {of(bootstrapv1.SoftwarePreinstalled), 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme.Scheme())
			if test.there != nil {
				builder = builder.WithObjects(test.there)
			}
			o := &options{client: builder.Build(), namespace: "two", name: "one", bare: test.bare}
			if err := o.checkTenant(t.Context()); (err != nil) != test.fails {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
