package templates

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// ofTheCluster are variables of templates that are fields of a Cluster with a topology, and no variables of its class.
var ofTheCluster = map[string]string{
	"CLUSTER_NAME":         "metadata.name",
	"NAMESPACE":            "metadata.namespace",
	"KUBERNETES_VERSION":   "topology.version",
	"WORKER_MACHINE_COUNT": "topology.workers.machineDeployments[].replicas",
	"POD_CIDR":             "clusterNetwork.pods.cidrBlocks",
	"SERVICE_CIDR":         "clusterNetwork.services.cidrBlocks",
	"SERVICE_DOMAIN":       "clusterNetwork.serviceDomain",
	"CLUSTER_CLASS":        "topology.classRef.name",
	"API_SERVER_REPLICAS":  "topology.controlPlane.replicas",
}

// forNewClusters are variables whose default new Clusters get by a template, and not by the class: Cluster API writes a default of the
// class into Clusters that are there, whose control planes would change, and for some variables their workers be replaced.
var forNewClusters = map[string]string{
	"softwareMode": "KOKSoftware", "konnectivityMode": "Managed", "etcdEventsMode": "Separate", "metricsMode": "None",
	"imagePullSecret": "that of KOK_IMAGE_PULL_SECRET",
}

const (
	// none is the default of a variable that sets nothing.
	none = "none"
	// without is that of a variable that has to be set.
	without = "needed"
)

var (
	afterCapitals = regexp.MustCompile(`([A-Z]+)([A-Z][a-z])`)
	afterSmall    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	// anotherVariable is a default that is the value of another variable.
	anotherVariable = regexp.MustCompile(`^\$\{(\w+)\}$`)
)

// inTemplates is the name that a variable of a class has in templates: schedulerReplicas is SCHEDULER_REPLICAS. Letters in capitals
// before a word are a word: coreDNSMode is CORE_DNS_MODE.
func inTemplates(name string) string {
	apart := afterCapitals.ReplaceAllString(name, "${1}_${2}")
	return strings.ToUpper(afterSmall.ReplaceAllString(apart, "${1}_${2}"))
}

func TestNamesInTemplatesComeFromThoseOfTheClass(t *testing.T) {
	for name, want := range map[string]string{
		"exposure": "EXPOSURE", "etcdStorageSize": "ETCD_STORAGE_SIZE", "coreDNSMode": "CORE_DNS_MODE", "apiServerExtraArgs": "API_SERVER_EXTRA_ARGS",
	} {
		if got := inTemplates(name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

// flavour is the name that clusterctl has for a template.
func flavour(file string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(file, "cluster-template"), ".yaml")
	if name == "" {
		return "default"
	}
	return strings.TrimPrefix(name, "-")
}

// defaults are those of the variables of each flavour, as clusterctl tells them.
func defaults(t *testing.T) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob("cluster-template*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("templates %v, err %v", files, err)
	}
	all := map[string]map[string]string{}
	for _, file := range files {
		variables, err := yamlprocessor.NewSimpleProcessor().GetVariableMap([]byte(read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for name, value := range variables {
			switch {
			case value == nil:
				found[name] = without
			case slices.Contains([]string{"", `""`, "null", "[]", "{}"}, strings.TrimSpace(*value)):
				found[name] = none
			case anotherVariable.MatchString(*value):
				found[name] = "that of " + anotherVariable.FindStringSubmatch(*value)[1]
			default:
				found[name] = *value
			}
		}
		all[flavour(file)] = found
	}
	return all
}

// defaultsOfTheClass are those of its variables, in templates' form.
func defaultsOfTheClass(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, variable := range one[*clusterv1.ClusterClass](t, render(t, class)).Spec.Variables {
		found[variable.Name] = none
		if value := variable.Schema.OpenAPIV3Schema.Default; value != nil && string(value.Raw) != `""` {
			text, err := yaml.JSONToYAML(value.Raw)
			if err != nil {
				t.Fatal(err)
			}
			found[variable.Name] = strings.TrimSpace(string(text))
		}
	}
	return found
}

func TestOneThingHasOneNameAndOneDefault(t *testing.T) {
	known := map[string]string{}
	for name, value := range defaultsOfTheClass(t) {
		if late, ok := forNewClusters[name]; ok {
			if value != none {
				t.Errorf("%s has the default %s, which Clusters that are there would get", name, value)
			}
			value = late
		}
		known[inTemplates(name)] = value
	}
	// pod-network is what it is by its defaults.
	different := map[string]string{"EXPOSURE": "LoadBalancer"}
	for flavour, variables := range defaults(t) {
		for name, value := range variables {
			if _, ok := ofTheCluster[name]; ok {
				continue
			}
			want, ok := known[name]
			if other, is := different[name]; is {
				want = other
			}
			if !ok || value != want {
				t.Errorf("%s of %s has the default %q, that of the class has %q (%t)", name, flavour, value, want, ok)
			}
		}
	}
}

func TestVariablesOfTheTopologyTemplateSetThoseOfTheClass(t *testing.T) {
	values := maps.Clone(needed)
	for name, value := range map[string]string{
		"SOFTWARE_MODE": "KOKSoftware", "SOFTWARE_BY_VERSION": "gpu", "SOFTWARE_REF": "site", "ETCD_STORAGE_CLASS_NAME": "local", "HOST_NODE_SELECTOR": "example.com/site: north, example.com/pool: tenants", "PORT_POOL": "north",
		"WORKER_HOST_SELECTOR": "pool: workers", "REGISTRY_MIRRORS": `[{registry: registry.k8s.io, endpoints: [{url: "https://mirror.example.com"}]}]`,
	} {
		values[name] = value
	}
	entry := regexp.MustCompile(`\{name: (\w+), value: (?:\{name: )?\W*\$\{(\w+):=`).FindAllStringSubmatch(read(t, topology), -1)
	objects := decodeAll(t, fillWith(t, topology, values))
	set := map[string]string{}
	for _, variable := range one[*clusterv1.Cluster](t, objects).Spec.Topology.Variables {
		set[variable.Name] = string(variable.Value.Raw)
	}
	if len(entry) != len(set) || len(set) < 20 {
		t.Errorf("of %d variables %d have one of clusterctl", len(set), len(entry))
	}
	for _, names := range entry {
		if inTemplates(names[1]) != names[2] {
			t.Errorf("%s is set by %s", names[1], names[2])
		}
	}
	for name, want := range map[string]string{
		"softwareMode": `"KOKSoftware"`, "softwareByVersion": `"gpu"`, "softwareRef": `{"name":"site"}`, "etcdStorageClassName": `"local"`, "portPool": `"north"`, "hostNodeSelector": `{"example.com/pool":"tenants","example.com/site":"north"}`,
		"workerHostSelector": `{"pool":"workers"}`, "registryMirrors": `[{"endpoints":[{"url":"https://mirror.example.com"}],"registry":"registry.k8s.io"}]`,
	} {
		if set[name] != want {
			t.Errorf("%s is %s, not %s", name, set[name], want)
		}
	}
}

// The registry that wants a password of managers wants it of control planes as well: they run an image of the release.
func TestTheSecretOfManagersIsThatOfNewControlPlanes(t *testing.T) {
	for name, test := range map[string]struct {
		variables map[string]string
		want      string
	}{
		"nobody names one":            {nil, ""},
		"managers have one":           {map[string]string{"KOK_IMAGE_PULL_SECRET": "registry"}, "registry"},
		"control planes have another": {map[string]string{"KOK_IMAGE_PULL_SECRET": "registry", "IMAGE_PULL_SECRET": "other"}, "other"},
		"control planes have none":    {map[string]string{"KOK_IMAGE_PULL_SECRET": "registry", "IMAGE_PULL_SECRET": `""`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			values := maps.Clone(needed)
			maps.Copy(values, test.variables)
			for flavour := range defaults(t) {
				file := strings.TrimSuffix("cluster-template-"+flavour, "-default") + ".yaml"
				objects := decodeAll(t, fillWith(t, file, values))
				var got string
				if file == topology {
					variables := one[*clusterv1.Cluster](t, objects).Spec.Topology.Variables
					i := slices.IndexFunc(variables, func(v clusterv1.ClusterVariable) bool { return v.Name == "imagePullSecret" })
					if err := yaml.Unmarshal(variables[i].Value.Raw, &got); err != nil {
						t.Fatal(err)
					}
				} else {
					got = one[*controlplanev1.KOKControlPlane](t, objects).Spec.ImagePullSecret
				}
				if got != test.want {
					t.Errorf("that of %s is %q, not %q", flavour, got, test.want)
				}
			}
		})
	}
}

// Who gets a topology gets nothing else than who does without, as far as templates have variables for it.
func TestTheTopologyTemplateHasTheVariablesOfTheDefault(t *testing.T) {
	all := defaults(t)
	for name := range all["default"] {
		if _, ok := all["topology"][name]; !ok {
			t.Errorf("it has no %s", name)
		}
	}
}

// clusterctl sets it to 1 when nobody does: a template cannot tell who wants one.
func TestNoTemplateCountsControlPlaneMachines(t *testing.T) {
	for flavour, variables := range defaults(t) {
		if _, ok := variables["CONTROL_PLANE_MACHINE_COUNT"]; ok {
			t.Errorf("%s does", flavour)
		}
	}
}
