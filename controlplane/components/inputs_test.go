package components_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

var (
	everyone   = []string{names.EtcdData, names.EtcdEvents, names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler}
	bothEtcds  = []string{names.EtcdData, names.EtcdEvents}
	apiServer  = []string{names.KubeAPIServer}
	manager    = []string{names.KubeControllerManager}
	scheduler  = []string{names.KubeScheduler}
	dataOnly   = []string{names.EtcdData}
	eventsOnly = []string{names.EtcdEvents}
	nobody     []string
	// kubernetesPrograms are all components but etcd.
	kubernetesPrograms = []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler}
	anotherImage       = "registry.example/another:1"
)

// change is one change of the inputs and the components that adopt a new rendering for it.
type change struct {
	name    string
	edit    func(in *components.Input)
	concern []string
}

var changes = slices.Concat([]change{
	{"the cluster's name", func(in *components.Input) { in.Cluster.Name = "green" }, everyone},
	{"the cluster's namespace", func(in *components.Input) { in.Cluster.Namespace = "other" }, everyone},
	{"the version", func(in *components.Input) { in.Version = "v1.36.9" }, everyone},
	{"the range of pods", func(in *components.Input) { in.Network.PodCIDRs = []string{"10.1.0.0/16"} }, manager},
	{"the range of Services", func(in *components.Input) { in.Network.ServiceCIDRs = []string{"10.2.0.0/16"} }, []string{names.KubeAPIServer, names.KubeControllerManager}},
	{"the domain", func(in *components.Input) { in.Network.DNSDomain = "example" }, apiServer},
	{"the address of a Service", func(in *components.Input) { in.Addresses["blue-etcd-data-0"] = "10.250.0.99" }, apiServer},

	{"the service account keys", func(in *components.Input) {
		in.ServiceAccountKeys = components.KeyFiles{Trusted: []string{"", "0123456789"}, Used: "0123456789"}
	}, []string{names.KubeAPIServer, names.KubeControllerManager}},
	{"the encryption keys", func(in *components.Input) {
		in.EncryptionKeys = components.KeyFiles{Trusted: []string{"", "0123456789"}}
	}, apiServer},
	{"the front proxy CAs that are trusted", func(in *components.Input) {
		in.FrontProxyCAs = components.KeyFiles{Trusted: []string{"", "0123456789"}}
	}, kubernetesPrograms},
	{"the front proxy CA that is used", func(in *components.Input) { in.FrontProxyCAs = components.KeyFiles{Used: "0123456789"} }, apiServer},

	{"the cluster CAs that are trusted", func(in *components.Input) {
		in.ClusterCAs = components.KeyFiles{Trusted: []string{"", "0123456789"}}
	}, kubernetesPrograms},
	{"the cluster CA that is used", func(in *components.Input) { in.ClusterCAs = components.KeyFiles{Used: "0123456789"} }, kubernetesPrograms},
	{"the cluster CA that is shown", func(in *components.Input) { in.ClusterCAs = components.KeyFiles{Shown: "0123456789"} }, kubernetesPrograms},

	{"the CAs of the data etcd that are trusted", func(in *components.Input) {
		in.EtcdCAs = components.KeyFiles{Trusted: []string{"", "0123456789"}}
	}, []string{names.EtcdData, names.EtcdEvents, names.KubeAPIServer}},
	{"the CA of the data etcd that is used", func(in *components.Input) { in.EtcdCAs = components.KeyFiles{Used: "0123456789"} }, []string{names.EtcdData, names.KubeAPIServer}},
	{"the CAs of the events etcd that are trusted", func(in *components.Input) {
		in.EtcdEventsCAs = components.KeyFiles{Trusted: []string{"", "0123456789"}}
	}, []string{names.EtcdEvents, names.KubeAPIServer}},
	{"the CA of the events etcd that is used", func(in *components.Input) { in.EtcdEventsCAs = components.KeyFiles{Used: "0123456789"} }, eventsOnly},

	{"hosting.nodeSelector", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Hosting.NodeSelector["pool"] = "other" }), everyone},
	{"hosting.tolerations", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Hosting.Tolerations = nil }), everyone},
	{"hosting.ports", func(in *components.Input) { in.Spec.Hosting.Ports.First, in.Ports = 20100, ports.Of(20100) }, everyone},
	{"hosting.portPool", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Hosting.PortPool = "other" }), everyone},
	{"imageRepository", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.ImageRepository = "registry.example/other" }), everyone},
	{"imagePullSecret", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.ImagePullSecret = "other" }), everyone},
	{"encryptionAtRest.mode", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.EncryptionAtRest.Mode = controlplanev1.EncryptionNone }), nobody},

	{"kubeAPIServer.audit.policy", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeAPIServer.Audit.Policy = "" }), apiServer},
	{"kubeAPIServer.audit.maxSizeMB", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeAPIServer.Audit.MaxSizeMB++ }), apiServer},
	{"kubeAPIServer.audit.maxBackups", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeAPIServer.Audit.MaxBackups++ }), apiServer},
	{"kubeAPIServer.jwt", spec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.KubeAPIServer.JWT = []runtime.RawExtension{{Raw: []byte(`{"issuer":{"url":"https://other.example","audiences":["tenant"]}}`)}}
	}), apiServer},
	{"addons.konnectivity.mode", spec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.Addons.Konnectivity = controlplanev1.KonnectivitySpec{Mode: controlplanev1.AddonNone}
	}), apiServer},
	{"addons.konnectivity.serverImage", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Addons.Konnectivity.ServerImage = anotherImage }), apiServer},
	{"kubeControllerManager.replicas", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeControllerManager.Replicas = ptr.To[int32](5) }), manager},
	{"kubeScheduler.replicas", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.KubeScheduler.Replicas = ptr.To[int32](5) }), scheduler},
	{"etcd.image", spec(func(s *controlplanev1.KOKControlPlaneSpec) { s.Etcd.Image = anotherImage }), bothEtcds},
	{"etcd.backup", backedUp(nil), dataOnly},
	{"etcd.backup.store.claimName", backedUp(func(s *controlplanev1.EtcdBackupSpec) {
		s.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}
	}), dataOnly},
	{"etcd.backup.store.perMember", backedUp(func(s *controlplanev1.EtcdBackupSpec) { s.Store = perMember("local", "4Gi") }), dataOnly},
	{"etcd.restore", spec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "snapshot"}
		*s = components.Reduce(*s)
	}), dataOnly},
	patchChange(names.EtcdData, "StatefulSet", dataOnly),
	patchChange(names.EtcdEvents, "StatefulSet", eventsOnly),
	patchChange(names.KubeAPIServer, "DaemonSet", apiServer),
	patchChange(names.KubeControllerManager, "Deployment", manager),
	patchChange(names.KubeScheduler, "Deployment", scheduler),
	patchChange("coredns", "Deployment", nobody),
},
	[]change{{"etcd.events.mode", func(in *components.Input) {
		in.Spec.Etcd.Events.Mode = controlplanev1.EtcdEventsInData
		in.Spec = components.Reduce(in.Spec)
	}, append(slices.Clone(apiServer), names.EtcdEvents)}},
	componentChanges("kubeAPIServer", apiServer, func(s *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ComponentSpec {
		return &s.KubeAPIServer.ComponentSpec
	}),
	componentChanges("kubeControllerManager", manager, func(s *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ComponentSpec {
		return &s.KubeControllerManager.ComponentSpec
	}),
	componentChanges("kubeScheduler", scheduler, func(s *controlplanev1.KOKControlPlaneSpec) *controlplanev1.ComponentSpec {
		return &s.KubeScheduler.ComponentSpec
	}),
	etcdChanges("etcd.data", dataOnly, func(s *controlplanev1.KOKControlPlaneSpec) *controlplanev1.EtcdClusterSpec { return &s.Etcd.Data }),
	etcdChanges("etcd.events", eventsOnly, func(s *controlplanev1.KOKControlPlaneSpec) *controlplanev1.EtcdClusterSpec {
		return &s.Etcd.Events.EtcdClusterSpec
	}),
)

func spec(edit func(s *controlplanev1.KOKControlPlaneSpec)) func(in *components.Input) {
	return func(in *components.Input) { edit(&in.Spec) }
}

// backedUp switches backups on, as the controller has them.
func backedUp(edit func(s *controlplanev1.EtcdBackupSpec)) func(in *components.Input) {
	return func(in *components.Input) {
		in.Spec.Etcd.Backup = backupToS3()
		if edit != nil {
			edit(in.Spec.Etcd.Backup)
		}
		in.Spec = components.Reduce(in.Spec)
	}
}

func patchChange(component, kind string, concern []string) change {
	return change{"a patch for " + component, spec(func(s *controlplanev1.KOKControlPlaneSpec) {
		s.Patches = append(s.Patches, annotate(component, kind))
	}), concern}
}

func componentChanges(name string, concern []string, of func(*controlplanev1.KOKControlPlaneSpec) *controlplanev1.ComponentSpec) []change {
	return []change{
		{name + ".image", spec(func(s *controlplanev1.KOKControlPlaneSpec) { of(s).Image = anotherImage }), concern},
		{name + ".extraArgs", spec(func(s *controlplanev1.KOKControlPlaneSpec) { of(s).ExtraArgs[0].Value = ptr.To("other") }), concern},
		{name + ".resources", spec(func(s *controlplanev1.KOKControlPlaneSpec) { of(s).Resources = resources("3", "3Gi") }), concern},
		{name + ".extraVolumes", spec(func(s *controlplanev1.KOKControlPlaneSpec) { of(s).ExtraVolumes = of(s).ExtraVolumes[:1] }), concern},
	}
}

func etcdChanges(name string, concern []string, of func(*controlplanev1.KOKControlPlaneSpec) *controlplanev1.EtcdClusterSpec) []change {
	return []change{
		// The API server lists every member.
		{name + ".replicas", func(in *components.Input) {
			of(&in.Spec).Replicas = ptr.To[int32](7)
			for i, service := range services(in) {
				in.Addresses[service.Name] = fmt.Sprintf("10.250.1.%d", i)
			}
		}, append([]string{names.KubeAPIServer}, concern...)},
		{name + ".resources", spec(func(s *controlplanev1.KOKControlPlaneSpec) { of(s).Resources = resources("3", "3Gi") }), concern},
		{name + ".quotaBackendSize", spec(func(s *controlplanev1.KOKControlPlaneSpec) {
			of(s).QuotaBackendSize = ptr.To(resource.MustParse("3Gi"))
		}), concern},
		{name + ".storage.size", spec(func(s *controlplanev1.KOKControlPlaneSpec) { of(s).Storage.Size = ptr.To(resource.MustParse("3Gi")) }), concern},
		{name + ".storage.storageClassName", spec(func(s *controlplanev1.KOKControlPlaneSpec) { of(s).Storage.StorageClassName = ptr.To("other") }), concern},
		{name + ".storage.type", spec(func(s *controlplanev1.KOKControlPlaneSpec) {
			of(s).Storage = controlplanev1.EtcdStorageSpec{Type: controlplanev1.EtcdStorageEmptyDir}
		}), concern},
	}
}

// sameBytes are changes for which a new rendering is adopted although it is the same: by them a person
// asks for the newest rendering of the program.
var sameBytes = map[string][]string{
	// The image of etcd that goes with a version is the program's choice, and may be the same.
	"the version": bothEtcds,
	// All images are named in customised.
	"imageRepository": everyone,
}

func TestComponentsAdoptARenderingOnlyForWhatConcernsThem(t *testing.T) {
	for _, change := range changes {
		for _, component := range registry.Components {
			t.Run(change.name+"/"+component.Name, func(t *testing.T) {
				before, after := variants["customised"](), variants["customised"]()
				change.edit(after)
				concerned := slices.Contains(change.concern, component.Name)
				if sameHash := hash(t, component, before) == hash(t, component, after); sameHash == concerned {
					t.Errorf("it is %t that the hash of the inputs is the same", sameHash)
				}
				if !component.IsOf(&after.Spec) {
					return
				}
				same := bytes.Equal(objects(t, component, before), objects(t, component, after))
				if same == concerned && !slices.Contains(sameBytes[change.name], component.Name) {
					t.Errorf("it is %t that the rendering is the same", same)
				}
			})
		}
	}
}

func hash(t *testing.T, component components.Component, in *components.Input) string {
	t.Helper()
	hash, err := component.Inputs(in).Hash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func objects(t *testing.T, component components.Component, in *components.Input) []byte {
	t.Helper()
	rendered, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	return documents(t, rendered...)
}

// What Reduce takes out of a spec may change at any time: it reaches Secrets, or is an input of its own.
func TestReduceTakesOutWhatNoRenderingDependsOn(t *testing.T) {
	other := customised()
	other.Version = "v1.36.9"
	other.ControlPlaneEndpoint = controlplanev1.APIEndpoint{Host: "tenant.example", Port: 443}
	other.KubeAPIServer.CertSANs = []string{"another.example"}
	other.Rollout.After = metav1.NewTime(time.Unix(1, 0))
	other.Addons.CoreDNS.Mode = controlplanev1.AddonNone
	other.Addons.Konnectivity.AgentImage = anotherImage
	other.EncryptionAtRest.Resources = []string{"secrets", "configmaps"}
	if !reflect.DeepEqual(components.Reduce(other), components.Reduce(customised())) {
		t.Error("the reduced specs differ")
	}
}

// The modes of before there were others count as no mode, whether they are written out or not.
func TestReduceTakesOutTheModesThatThereWereAlways(t *testing.T) {
	with, without := trial(), trial()
	with.Hosting.NetworkMode, with.KubeAPIServer.Workload = controlplanev1.NetworkModeHost, controlplanev1.APIServerDaemonSet
	if !reflect.DeepEqual(components.Reduce(with), components.Reduce(without)) {
		t.Error("the reduced specs differ")
	}
}

// The template of clusterctl has an empty name where nobody chose a class.
func TestReduceTakesOutStorageClassesWithoutAName(t *testing.T) {
	with, without := defaulted(), defaulted()
	with.Etcd.Data.Storage.StorageClassName, with.Etcd.Events.Storage.StorageClassName = ptr.To(""), ptr.To("")
	if !reflect.DeepEqual(components.Reduce(with), components.Reduce(without)) {
		t.Error("the reduced specs differ")
	}
}

// An autoscaler that changes the number of API servers must not bring a newer rendering along, and an
// older rendering must take the number.
func TestReplicasOfAPIServersAreNoInput(t *testing.T) {
	before, after := variants["load-balancer"](), variants["load-balancer"]()
	after.APIServerReplicas = 5
	for _, component := range registry.Components {
		if hash(t, component, before) != hash(t, component, after) {
			t.Errorf("%s would adopt a new rendering", component.Name)
		}
	}
	stored, err := kubeapiserver.Component.Rendered(before)
	if err != nil {
		t.Fatal(err)
	}
	kubeapiserver.Component.Scale(after, stored)
	if !bytes.Equal(documents(t, stored...), objects(t, kubeapiserver.Component, after)) {
		t.Error("the scaled rendering is not that of the new number")
	}
}

func TestWhereAPIServersAreReachedConcernsThemAlone(t *testing.T) {
	for _, component := range registry.Components {
		before, after := variants["load-balancer"](), variants["load-balancer"]()
		after.Exposure.Address = "192.0.2.81"
		if same := hash(t, component, before) == hash(t, component, after); same == (component.Name == names.KubeAPIServer) {
			t.Errorf("%s: it is %t that the hash of the inputs is the same", component.Name, same)
		}
	}
}

// A control plane whose field was defaulted is as one of before there was the field.
func TestReduceTakesOutAKonnectivityThatIsSwitchedOff(t *testing.T) {
	with, without := trial(), trial()
	with.Addons.Konnectivity = controlplanev1.KonnectivitySpec{Mode: controlplanev1.AddonNone, ServerImage: anotherImage, AgentImage: anotherImage}
	if !reflect.DeepEqual(components.Reduce(with), components.Reduce(without)) {
		t.Error("the reduced specs differ")
	}
}

// A provider that brings new fields changes no rendering of control planes that leave them at their defaults.
func TestReduceTakesOutSeparateEventsAndMetricsOnTheHostNetwork(t *testing.T) {
	with, without := defaulted(), defaulted()
	with.Etcd.Events.Mode, with.Etcd.Events.FoundAnewAt = controlplanev1.EtcdEventsSeparate, metav1.NewTime(time.Unix(1, 0))
	with.Metrics.Mode = controlplanev1.MetricsManaged
	if !reflect.DeepEqual(components.Reduce(with), components.Reduce(without)) {
		t.Error("the reduced specs differ")
	}
}

// On the pod network policies let those in who read metrics, and no pod restarts for it.
func TestMetricsOnThePodNetworkChangePoliciesAlone(t *testing.T) {
	for _, component := range registry.Components {
		before, after := variants["load-balancer"](), variants["load-balancer"]()
		after.Spec.Metrics.Mode = controlplanev1.MetricsManaged
		after.Spec = components.Reduce(after.Spec)
		concerned := slices.Contains([]string{names.KubeControllerManager, names.KubeScheduler}, component.Name)
		if same := hash(t, component, before) == hash(t, component, after); same == concerned {
			t.Errorf("%s: it is %t that the hash of the inputs is the same", component.Name, same)
		}
		if !bytes.Equal(podsOf(t, component, before), podsOf(t, component, after)) {
			t.Errorf("%s: its pods restart", component.Name)
		}
		if admits := bytes.Contains(objects(t, component, after), []byte(names.MetricsReaderLabel)); admits != concerned {
			t.Errorf("%s: it is %t that it lets readers of metrics in", component.Name, admits)
		}
	}
}

func TestEventsInTheDataAreLookedForThere(t *testing.T) {
	in := variants["default"]()
	if apiServer := objects(t, kubeapiserver.Component, in); !bytes.Contains(apiServer, []byte("--etcd-servers-overrides=/events#")) {
		t.Error("separate events are not looked for in their etcd")
	}
	in.Spec.Etcd.Events.Mode = controlplanev1.EtcdEventsInData
	in.Spec = components.Reduce(in.Spec)
	if apiServer := objects(t, kubeapiserver.Component, in); bytes.Contains(apiServer, []byte("--etcd-servers-overrides")) {
		t.Error("events in the data are looked for elsewhere")
	}
	if of := registry.Components.Of(&in.Spec).Names(); slices.Contains(of, names.EtcdEvents) || len(of) != len(registry.Components)-1 {
		t.Errorf("the components are %v", of)
	}
}

// A restart of the members that are left would cost the last quorum.
func TestReduceTakesOutWhatIsGivenUp(t *testing.T) {
	with, without := defaulted(), defaulted()
	with.Etcd.GivenUp, with.Etcd.Recovery = []string{"blue-etcd-data-1"}, controlplanev1.EtcdRecoversFromSurvivor
	if !reflect.DeepEqual(components.Reduce(with), components.Reduce(without)) {
		t.Error("the reduced specs differ")
	}
}

// Which cluster a control plane runs in changes nothing of its pods.
func TestReduceTakesOutTheKubeconfigOfTheHostCluster(t *testing.T) {
	with, without := trial(), trial()
	with.Hosting.KubeconfigRef.Name = "host"
	if !reflect.DeepEqual(components.Reduce(with), components.Reduce(without)) {
		t.Error("the reduced specs differ")
	}
}

// TestChangesCoverEveryInput fails when a field is added to the inputs and nobody says who depends on
// it: add it to customised, and a change of it to changes.
func TestChangesCoverEveryInput(t *testing.T) {
	for _, path := range unset(reflect.ValueOf(components.Reduce(customised())), "spec") {
		if !slices.Contains([]string{
			"spec.version", "spec.replicas", "spec.controlPlaneEndpoint", "spec.kubeAPIServer.certSANs",
			"spec.rollout", "spec.encryptionAtRest.resources", "spec.addons.kubeProxy", "spec.addons.coreDNS",
			"spec.addons.konnectivity.agentImage", "spec.patches", "spec.hosting.kubeconfigRef",
			// What a mode adds is in variants of its own.
			"spec.hosting.networkMode", "spec.hosting.exposure", "spec.kubeAPIServer.workload",
			// So is what backups add; see changes.
			"spec.etcd.backup", "spec.etcd.restore",
			"spec.etcd.givenUp", "spec.etcd.recovery",
			"spec.etcd.events.mode", "spec.etcd.events.foundAnewAt", "spec.metrics",
			// How far a rotation has come is an input of its own; see changes.
			"spec.keyRotation",
		}, path) {
			t.Errorf("%s is a new input of renderings: set it in customised, and say in changes which components adopt a rendering for it", path)
		}
	}
	before := fields(t, variants["customised"]())
	covered := map[string]bool{}
	for _, change := range changes {
		after := variants["customised"]()
		change.edit(after)
		edited := fields(t, after)
		for path, value := range before {
			if edited[path] != value {
				covered[path] = true
			}
		}
	}
	// Within a list of the spec, one change stands for all.
	within := func(path, list string) bool { return strings.Contains(path, "."+list+"[") }
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if covered[path] || within(path, "extraVolumes") || within(path, "extraArgs") || strings.HasPrefix(path, ".addresses.") ||
			strings.Contains(path, ".nodeSelector.") || strings.Contains(path, ".jwt[") {
			continue
		}
		t.Errorf("no change covers %s", path)
	}
}

// fields are the values of all fields of the inputs' JSON, by path.
func fields(t *testing.T, in *components.Input) map[string]string {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := json.Unmarshal(raw, &content); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	flatten("", content, all)
	return all
}

func flatten(path string, value any, all map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			flatten(path+"."+key, inner, all)
		}
	case []any:
		for i, inner := range value {
			flatten(fmt.Sprintf("%s[%d]", path, i), inner, all)
		}
	default:
		all[path] = fmt.Sprint(value)
	}
}

// unset are the JSON paths of fields of our own types that have no value.
func unset(value reflect.Value, path string) []string {
	if value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	if value.IsZero() {
		return []string{path}
	}
	if value.Kind() != reflect.Struct || value.Type().PkgPath() != reflect.TypeFor[controlplanev1.KOKControlPlaneSpec]().PkgPath() {
		return nil
	}
	var paths []string
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		inner := path + "." + name
		if name == "" {
			inner = path
		}
		paths = append(paths, unset(value.Field(i), inner)...)
	}
	return paths
}

// TestHashesOfInputsAreStable: running tenants adopt a new rendering when the hash of their inputs
// changes, so a new version of the program must give the same hash for the same spec, or every
// upgrade of the provider restarts every pod. A field that is added to the inputs must be left out
// of their JSON while it has its default.
func TestHashesOfInputsAreStable(t *testing.T) {
	hashes := map[string]map[string]string{}
	for variant, input := range variants {
		hashes[variant] = map[string]string{}
		for _, component := range registry.Components {
			hashes[variant][component.Name] = hash(t, component, input())
		}
	}
	golden.Compare(t, "hashes.yaml", documents(t, hashes))
}

// The tables of this program are no inputs: a newer program with other defaults must not restart
// what runs.
func TestDefaultsOfTheProgramAreNoInputs(t *testing.T) {
	for _, component := range registry.Components {
		before, after := variants["default"](), variants["default"]()
		after.EtcdImageTag, after.KonnectivityImageTag, after.EtcdAgentImage = "3.6.99-0", "v0.99.0", anotherImage
		after.Ports = ports.Of(20040)
		if hash(t, component, before) != hash(t, component, after) {
			t.Errorf("%s would adopt a new rendering", component.Name)
		}
	}
}

func TestExtraVolumesOfEveryKindAreMounted(t *testing.T) {
	for _, component := range registry.Components[2:] {
		rendered, err := component.Objects(component.Inputs(variants["customised"]()))
		if err != nil {
			t.Fatal(err)
		}
		pod := podIn(t, rendered).Spec
		for name, readOnly := range map[string]bool{"config-map": true, "secret": true, "scratch": false} {
			volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
			mount := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
			if volume < 0 || mount < 0 || pod.Containers[0].VolumeMounts[mount].MountPath != "/extra/"+name || pod.Containers[0].VolumeMounts[mount].ReadOnly != readOnly {
				t.Errorf("%s does not mount %s as asked", component.Name, name)
			}
		}
	}
}

// What a revision was made for decides whether a rollout's time calls for a new one; its hash must not, or
// setting a time to come, or taking one away, would restart everything.
func TestARolloutRestartsPodsButIsNoInput(t *testing.T) {
	for _, component := range registry.Components {
		before, after := variants["customised"](), variants["customised"]()
		after.RolloutAfter = "2026-01-02T03:04:05Z"
		if hash(t, component, before) != hash(t, component, after) {
			t.Errorf("%s: the hash of the inputs differs", component.Name)
		}
		if bytes.Equal(objects(t, component, before), objects(t, component, after)) {
			t.Errorf("%s: the pods are the same", component.Name)
		}
	}
}
