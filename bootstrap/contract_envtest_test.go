//go:build envtest

package main

import (
	"bytes"
	"encoding/base64"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
)

// contractRules has one test for each rule of Cluster API's contract for bootstrap configs, by the name
// that the contract gives it.
var contractRules = map[string]func(*testing.T){
	"All resources: scope":                                                     allNamespaced,
	"All resources: `TypeMeta` and `ObjectMeta`field":                          allHaveMetadata,
	"All resources: `APIVersion` field value":                                  allSayTheirContract,
	"BootstrapConfig, BootstrapConfigList resource definition":                 kindAndList("KOKConfig"),
	"BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition": kindAndList("KOKConfigTemplate"),
	"BootstrapConfig: data secret":                                             dataSecret,
	"BootstrapConfig: initialization completed":                                initialization,
	"BootstrapConfig: conditions":                                              conditionsAreThere,
	"BootstrapConfig: terminal failures":                                       failuresAreConditions,
	"BootstrapConfig: support for in-place changes":                            changesAreAllowed,
	"BootstrapConfigTemplate: support for SSA dry run":                         topologyDryRun,
	"Sentinel file":                          sentinelFile,
	"Taint Nodes at creation":                taintAtCreation,
	"Support for running multiple instances": multipleInstances,
	"Clusterctl support":                     clusterctlSupport,
	"BootstrapConfig: pausing":               pausing,
}

func TestBootstrapConfigContract(t *testing.T) {
	contract.EveryRuleIsTested(t, rules.BootstrapConfig(), maps.Keys(contractRules))
	for rule, test := range contractRules {
		t.Run(rule, test)
	}
}

// definitions are the CustomResourceDefinitions as they are released.
func definitions(t *testing.T) contract.Definitions {
	t.Helper()
	return contract.Read(t, "../config/bootstrap/crd")
}

func allNamespaced(t *testing.T) { definitions(t).Namespaced(t) }

func allHaveMetadata(t *testing.T) { definitions(t).HaveMetadata(t) }

func allSayTheirContract(t *testing.T) {
	definitions(t).SayTheirContract(t, bootstrapv1.GroupVersion.Group)
}

func clusterctlSupport(t *testing.T) {
	contract.SupportsClusterctl(t, "..", "config/bootstrap/default", "kok", clusterctlv1.BootstrapProviderType)
}

func kindAndList(kind string) func(*testing.T) {
	return func(t *testing.T) {
		definitions(t).Define(t, bootstrapv1.GroupVersion.WithKind(kind), environment.Scheme)
	}
}

func dataSecret(t *testing.T) {
	w := up(t)
	config, secret := w.config(), w.secret()
	if config.Status.DataSecretName != secret.Name || config.Status.DataSecretName != config.Name {
		t.Errorf("the Secret is %s, status says %s", secret.Name, config.Status.DataSecretName)
	}
	if secret.Labels[clusterv1.ClusterNameLabel] != "blue" || secret.Type != clusterv1.ClusterSecretType {
		t.Errorf("labels %v, type %s", secret.Labels, secret.Type)
	}
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != config.UID || owner.APIVersion != bootstrapv1.GroupVersion.String() || owner.Kind != "KOKConfig" {
		t.Errorf("owner %+v", owner)
	}
	if !bytes.HasPrefix(secret.Data["value"], []byte("#cloud-config\n")) {
		t.Error("it has no bootstrap data")
	}
}

func initialization(t *testing.T) {
	w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
	w.eventually("it says what it waits for", func() bool {
		return conditions.GetReason(w.config(), bootstrapv1.DataSecretAvailableCondition) == bootstrapv1.WaitingForClusterInfrastructureReason
	})
	if w.isCreated() {
		t.Error("the bootstrap data is there before the Cluster")
	}
	w.clusterIsUp()
	w.eventually("the bootstrap data is there", w.isCreated)
	w.secret()
}

func conditionsAreThere(t *testing.T) {
	w := up(t)
	for _, kind := range []string{"Ready", "DataSecretAvailable", "BootstrapTokenValid"} {
		condition := conditions.Get(w.config(), kind)
		if condition == nil || condition.Status != metav1.ConditionTrue || condition.Reason == "" || condition.ObservedGeneration == 0 {
			t.Errorf("condition %s is %+v", kind, condition)
		}
	}
	if paused := conditions.Get(w.config(), clusterv1.PausedCondition); paused == nil || paused.Status != metav1.ConditionFalse {
		t.Errorf("condition Paused is %+v", paused)
	}
}

func failuresAreConditions(t *testing.T) {
	w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
	w.machine.Spec.Version = "v1.20.0"
	if err := environment.Client.Update(t.Context(), w.machine); err != nil {
		t.Fatal(err)
	}
	w.clusterIsUp()
	w.eventually("it says what is wrong", func() bool {
		return conditions.GetReason(w.config(), bootstrapv1.ReadyCondition) == bootstrapv1.InvalidSpecReason
	})
	if message := conditions.GetMessage(w.config(), bootstrapv1.ReadyCondition); !strings.Contains(message, "v1.20 is not supported") {
		t.Error(message)
	}
}

func changesAreAllowed(t *testing.T) {
	w := up(t)
	before := w.secret()
	config := w.config()
	config.Spec.Kubelet.Configuration.MaxPods = 5
	if err := environment.Client.Update(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w.eventually("the change was looked at", func() bool { return w.config().Status.ObservedGeneration == config.Generation })
	if w.secret().ResourceVersion != before.ResourceVersion {
		t.Error("the bootstrap data was made anew")
	}
}

func topologyDryRun(t *testing.T) {
	w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
	template := &bootstrapv1.KOKConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "workers"}}
	template.Spec.Template.Spec.PreKubeletCommands = []string{"true"}
	w.create(template)
	template.Spec.Template.Spec.PreKubeletCommands = []string{"false"}
	if err := environment.Client.Update(t.Context(), template.DeepCopy(), client.DryRunAll); !apierrors.IsInvalid(err) {
		t.Errorf("another's dry run: %v", err)
	}
	template.Annotations = map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	if err := environment.Client.Update(t.Context(), template.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("the topology's dry run: %v", err)
	}
	if err := environment.Client.Update(t.Context(), template.DeepCopy()); !apierrors.IsInvalid(err) {
		t.Errorf("a change: %v", err)
	}
}

// files are the files of a machine's bootstrap data.
func files(t *testing.T, w *worker) map[string]string {
	t.Helper()
	var document struct {
		WriteFiles []struct{ Path, Content string } `json:"write_files"`
	}
	if err := yaml.Unmarshal(w.secret().Data["value"], &document); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range document.WriteFiles {
		content, err := base64.StdEncoding.DecodeString(file.Content)
		if err != nil {
			t.Fatal(err)
		}
		found[file.Path] = string(content)
	}
	return found
}

func sentinelFile(t *testing.T) {
	unit := strings.TrimSpace(files(t, up(t))["/etc/systemd/system/kok-bootstrap.service"])
	lines := strings.Split(unit, "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "ExecStart=") || !strings.HasSuffix(last, " /run/cluster-api/bootstrap-success.complete") {
		t.Errorf("the last step is %q", last)
	}
}

func taintAtCreation(t *testing.T) {
	if configuration := files(t, up(t))["/var/lib/kubelet/config.yaml"]; !strings.Contains(configuration, "key: node.cluster.x-k8s.io/uninitialized") {
		t.Errorf("kubelet registers without the taint: %s", configuration)
	}
}

// multipleInstances: the manager of these tests cares for one value of the watch label alone.
func multipleInstances(t *testing.T) {
	w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
	others := map[string]*bootstrapv1.KOKConfig{"unlabelled": w.config(), "another": w.config()}
	for name, other := range others {
		other.ResourceVersion, other.UID, other.Name, other.Status = "", "", name, bootstrapv1.KOKConfigStatus{}
		other.Labels[clusterv1.WatchLabel] = name
	}
	delete(others["unlabelled"].Labels, clusterv1.WatchLabel)
	for _, other := range others {
		w.create(other)
	}
	leftAlone := func(name string) {
		t.Helper()
		if status := w.configNamed(name).Status; len(status.Conditions) > 0 {
			t.Errorf("the %s config is cared for: %+v", name, status)
		}
	}
	w.clusterIsUp()
	w.eventually("the bootstrap data is there", w.isCreated)
	leftAlone("unlabelled")
	leftAlone("another")

	given := w.configNamed("another")
	given.Labels[clusterv1.WatchLabel] = watchFilter
	if err := environment.Client.Update(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	w.eventually("the config that got the label has bootstrap data", func() bool {
		return ptr.Deref(w.configNamed("another").Status.Initialization.DataSecretCreated, false)
	})
	leftAlone("unlabelled")
}

func pausing(t *testing.T) {
	for name, pause := range map[string]func(w *worker, paused bool) error{
		"by its Cluster": func(w *worker, paused bool) error {
			w.cluster.Spec.Paused = ptr.To(paused)
			return environment.Client.Update(t.Context(), w.cluster)
		},
		"by its annotation": func(w *worker, paused bool) error {
			config := w.config()
			before := config.DeepCopy()
			delete(config.Annotations, clusterv1.PausedAnnotation)
			if paused {
				config.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			}
			return environment.Client.Patch(t.Context(), config, client.MergeFrom(before))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, func(*bootstrapv1.KOKConfig) {})
			if err := pause(w, true); err != nil {
				t.Fatal(err)
			}
			w.clusterIsUp()
			w.eventually("it says that it is paused", func() bool { return conditions.IsTrue(w.config(), clusterv1.PausedCondition) })
			if w.isCreated() {
				t.Error("the bootstrap data was made while it was paused")
			}
			if err := pause(w, false); err != nil {
				t.Fatal(err)
			}
			w.eventually("it goes on", w.isCreated)
		})
	}
}
