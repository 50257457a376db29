package components_test

import (
	"bytes"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
)

// What people change from day to day must not restart members: it is in files that the agent reads again.
func TestOnlyThatThereAreBackupsAndTheirClaimAreInputs(t *testing.T) {
	spec := func(edit func(s *controlplanev1.EtcdSpec)) controlplanev1.KOKControlPlaneSpec {
		s := defaulted()
		s.Etcd.Backup, s.Etcd.Restore = backupToS3(), &controlplanev1.EtcdRestoreSpec{Snapshot: "a"}
		edit(&s.Etcd)
		return components.Reduce(s)
	}
	first := spec(func(*controlplanev1.EtcdSpec) {})
	if same := reflect.DeepEqual(first, components.Reduce(first)); !same {
		t.Error("a reduced spec is reduced again")
	}
	for name, test := range map[string]struct {
		edit func(s *controlplanev1.EtcdSpec)
		same bool
	}{
		"how often":            {func(s *controlplanev1.EtcdSpec) { s.Backup.Every = &metav1.Duration{Duration: time.Minute} }, true},
		"how old":              {func(s *controlplanev1.EtcdSpec) { s.Backup.MaxAge = nil }, true},
		"how many":             {func(s *controlplanev1.EtcdSpec) { s.Backup.Keep.Last = ptr.To[int32](2) }, true},
		"for whom":             {func(s *controlplanev1.EtcdSpec) { s.Backup.Recipients = nil }, true},
		"another bucket":       {func(s *controlplanev1.EtcdSpec) { s.Backup.Store.S3.Bucket = "other" }, true},
		"other credentials":    {func(s *controlplanev1.EtcdSpec) { s.Backup.Store.S3.CredentialsRef.Name = "other" }, true},
		"another snapshot":     {func(s *controlplanev1.EtcdSpec) { s.Restore.Snapshot = "b" }, true},
		"a volume each":        {func(s *controlplanev1.EtcdSpec) { s.Backup.Store = perMember("", "4Gi") }, false},
		"a claim":              {func(s *controlplanev1.EtcdSpec) { s.Backup.Store = controlplanev1.EtcdSnapshotStore{ClaimName: "a"} }, false},
		"no backup any more":   {func(s *controlplanev1.EtcdSpec) { s.Backup = nil }, false},
		"no snapshot any more": {func(s *controlplanev1.EtcdSpec) { s.Restore = nil }, false},
	} {
		if same := reflect.DeepEqual(first, spec(test.edit)); same != test.same {
			t.Errorf("%s: it is %t that the inputs are the same", name, same)
		}
	}
}

func TestAnotherClaimIsAnotherRendering(t *testing.T) {
	component := etcd.Data.AsComponent()
	before, after := variants["backup-claim-restore"](), variants["backup-claim-restore"]()
	after.Spec.Etcd.Backup.Store.ClaimName = "other"
	if hash(t, component, before) == hash(t, component, after) || bytes.Equal(podsOf(t, component, before), podsOf(t, component, after)) {
		t.Error("members go on with the old claim")
	}
}

// Other components, and the etcd of events, have nothing of it, nor has a manager without the agent's image.
func TestBackupsConcernTheDataEtcdAlone(t *testing.T) {
	for _, variant := range []string{"backup-s3", "backup-claim-restore", "backup-per-member"} {
		for _, component := range registry.Components {
			with, without := variants[variant](), variants[variant]()
			without.Spec.Etcd.Backup, without.Spec.Etcd.Restore = nil, nil
			concerned := component.Name == names.EtcdData
			if same := bytes.Equal(render(t, component, with), render(t, component, without)); same == concerned {
				t.Errorf("%s: it is %t that %s is the same", variant, same, component.Name)
			}
			if same := hash(t, component, with) == hash(t, component, without); same == concerned {
				t.Errorf("%s: it is %t that the hash of %s is the same", variant, same, component.Name)
			}
			with.EtcdAgentImage, without.EtcdAgentImage = "", ""
			same := bytes.Equal(render(t, component, with), render(t, component, without))
			if variant == "backup-per-member" && concerned { // Volumes are there from the beginning: nobody can add them when there is an image.
				same = bytes.Equal(podsOf(t, component, with), podsOf(t, component, without))
			}
			if !same {
				t.Errorf("%s: without the image %s has something of backups", variant, component.Name)
			}
		}
	}
}

func backupPod(t *testing.T, variant string, edit func(in *components.Input)) corev1.PodSpec {
	t.Helper()
	in := variants[variant]()
	if edit != nil {
		edit(in)
	}
	rendered, err := etcd.Data.AsComponent().Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	return podIn(t, rendered).Spec
}

func mounts(container corev1.Container) map[string]string {
	all := map[string]string{}
	for _, mount := range container.VolumeMounts {
		all[mount.MountPath] = "written"
		if mount.ReadOnly {
			all[mount.MountPath] = "read"
		}
	}
	return all
}

func TestWhatPrepareHasOfBackups(t *testing.T) {
	withoutRestore := func(in *components.Input) { in.Spec.Etcd.Restore = nil }
	withoutBackup := func(in *components.Input) { in.Spec.Etcd.Backup = nil }
	for name, test := range map[string]struct {
		variant string
		edit    func(in *components.Input)
		args    []string
		mounts  map[string]string
	}{
		"a bucket": {"backup-s3", nil, []string{"--copy-to=/opt/kok"}, map[string]string{"/var/lib/etcd": "read", "/opt/kok": "written"}},
		"a claim":  {"backup-claim-restore", withoutRestore, []string{"--copy-to=/opt/kok"}, map[string]string{"/var/lib/etcd": "read", "/opt/kok": "written"}},
		"a claim and a snapshot": {"backup-claim-restore", nil, []string{"--seed-dir=/etc/kok-backup", "--member=$(POD_NAME)", "--copy-to=/opt/kok"}, map[string]string{
			"/var/lib/etcd": "written", "/opt/kok": "written", "/etc/kok-backup": "read", "/var/lib/kok-snapshots": "read",
		}},
		"a volume each and a snapshot": {"backup-per-member", nil, []string{"--seed-dir=/etc/kok-backup", "--member=$(POD_NAME)", "--copy-to=/opt/kok"}, map[string]string{
			"/var/lib/etcd": "written", "/opt/kok": "written", "/etc/kok-backup": "read", "/var/lib/kok-snapshots": "read",
		}},
		"a snapshot alone": {"backup-claim-restore", withoutBackup, []string{"--seed-dir=/etc/kok-backup", "--member=$(POD_NAME)", "--copy-to=/opt/kok"}, map[string]string{
			"/var/lib/etcd": "written", "/opt/kok": "written", "/etc/kok-backup": "read",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := backupPod(t, test.variant, test.edit)
			prepare := pod.InitContainers[0]
			if want := append([]string{"prepare", "--hold", "--data-dir=/var/lib/etcd/data"}, test.args...); !slices.Equal(prepare.Args, want) {
				t.Errorf("its arguments are %q, want %q", prepare.Args, want)
			}
			if got := mounts(prepare); !reflect.DeepEqual(got, test.mounts) {
				t.Errorf("it has %v, want %v", got, test.mounts)
			}
			named := slices.ContainsFunc(prepare.Env, func(v corev1.EnvVar) bool { return v.Name == "POD_NAME" })
			if wanted := slices.Contains(prepare.Args, "--member=$(POD_NAME)"); named != wanted {
				t.Errorf("it is %t that it knows its pod", named)
			}
		})
	}
}

// What is wrong with a store must not take members away, and the image of the trial is that of the member.
func TestWhatTakesSnapshots(t *testing.T) {
	for _, variant := range []string{"backup-s3", "backup-claim-restore", "backup-per-member"} {
		t.Run(variant, func(t *testing.T) {
			pod := backupPod(t, variant, nil)
			member, snapshots := pod.Containers[0], pod.Containers[1]
			if snapshots.Name != backup.Container || snapshots.Image != member.Image {
				t.Errorf("%s has image %s, and etcd %s", snapshots.Name, snapshots.Image, member.Image)
			}
			if snapshots.StartupProbe != nil || snapshots.ReadinessProbe != nil || snapshots.LivenessProbe != nil {
				t.Error("a probe of it makes members unready")
			}
			if got, want := snapshots.Resources.Limits.Memory(), member.Resources.Limits.Memory(); got.Cmp(*want) != 0 {
				t.Errorf("it may have %s of memory, and etcd %s", got, want)
			}
			if withClaim := slices.Contains(snapshots.Args, "--store-dir="+backup.StoreDirectory); withClaim != (variant != "backup-s3") {
				t.Errorf("its arguments are %q", snapshots.Args)
			}
			if mounts(snapshots)[etcd.CertsDirectory] != "read" || mounts(snapshots)["/opt/kok"] != "read" || mounts(snapshots)["/etc/kok-backup"] != "read" || mounts(snapshots)["/var/lib/etcd"] != "read" {
				t.Errorf("it has %v", mounts(snapshots))
			}
			for _, volume := range pod.Volumes {
				if volume.Name == "kok-backup" && (volume.Secret.SecretName != "blue-etcd-data-backup" || !ptr.Deref(volume.Secret.Optional, false)) {
					t.Errorf("a pod waits for %v", volume.Secret)
				}
				if volume.Name == "kok-trial" && volume.EmptyDir.SizeLimit.String() != "4608Mi" {
					t.Errorf("a trial has %s", volume.EmptyDir.SizeLimit)
				}
			}
		})
	}
}

// The agent dials its member on loopback, and serves the manager at the address of the member's Service.
func TestTheAgentsCertificatesAreGoodForWhatItDoes(t *testing.T) {
	in := variants["backup-s3"]()
	keys := &pki.KeyMaterial{EtcdCA: pki.CA{Bundle: []byte("data")}, EtcdEventsCA: pki.CA{Bundle: []byte("events")}}
	certificates, err := etcd.Data.AsComponent().Certificates(in, components.Issuance{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	if ca, clients := certificates.Files[etcd.CAFile], certificates.Files[etcd.ClientCAFile]; !bytes.Equal(ca, clients) {
		t.Errorf("etcd trusts clients of %s, and not those of %s", clients, ca)
	}
	for _, leaf := range certificates.Leaves {
		if leaf.Signer != pki.EtcdCA {
			t.Errorf("%s is signed by %v", leaf.Name, leaf.Signer)
		}
		if leaf.Name == etcd.PeerClient {
			continue
		}
		for _, address := range []string{"127.0.0.1", in.Addresses[leaf.Name]} {
			if !slices.ContainsFunc(leaf.IPs, func(ip net.IP) bool { return ip.Equal(net.ParseIP(address)) }) {
				t.Errorf("%s is not that of %s", leaf.Name, address)
			}
		}
	}
}

func TestTheManagerAloneReachesTheAgent(t *testing.T) {
	in := variants["backup-claim-restore"]()
	component := etcd.Data.AsComponent()
	rendered, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rule := range policyIn(rendered).Spec.Ingress {
		got = append(got, describeRule(in, rule))
	}
	if want := []string{"kube-apiserver, the manager: 2379", "etcd-data: 2379 2380", "the manager: 2382"}; !slices.Equal(got, want) {
		t.Errorf("the policy lets in %q, want %q", got, want)
	}
}

func backupPatch(text string) controlplanev1.Patch {
	return patchFor(names.EtcdData, "StatefulSet", text)
}

func TestPatchesOfTheContainerThatTakesSnapshots(t *testing.T) {
	for name, test := range map[string]struct{ patch, refused string }{
		"its resources":     {`{name: backup, resources: {requests: {cpu: 100m}}}`, ""},
		"its image":         {`{name: backup, image: registry.example/mine}`, "set spec.etcd.image"},
		"its command":       {`{name: backup, command: [sh]}`, "cannot be patched"},
		"data of a trial":   {`{name: mine, image: registry.example/mine, volumeMounts: [{name: kok-trial, mountPath: /trial}]}`, "which holds keys or data"},
		"its program":       {`{name: mine, image: registry.example/mine, volumeMounts: [{name: kok-program, mountPath: /program}]}`, "which holds keys or data"},
		"its keys":          {`{name: mine, image: registry.example/mine, volumeMounts: [{name: kok-backup, mountPath: /keys}]}`, "which holds keys or data"},
		"snapshots":         {`{name: mine, image: registry.example/mine, volumeMounts: [{name: kok-snapshots, mountPath: /snapshots}]}`, "which holds keys or data"},
		"another container": {`{name: mine, image: registry.example/mine}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := variants["backup-claim-restore"]()
			in.Spec.Patches = []controlplanev1.Patch{backupPatch("spec: {template: {spec: {containers: [" + test.patch + "]}}}")}
			rendered, err := etcd.Data.AsComponent().Rendered(in)
			switch {
			case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
				t.Errorf("got %v, want %q", err, test.refused)
			case test.refused == "" && err != nil:
				t.Error(err)
			case test.refused == "":
				for _, object := range rendered {
					if pod := podOf(object); pod != nil && pod.Spec.Containers[0].Name != etcd.Container {
						t.Errorf("the first container is %s", pod.Spec.Containers[0].Name)
					}
				}
			}
		})
	}
}

// A stored rendering may have been written by others.
func TestFinding7BackupsOfOthersAreForgeries(t *testing.T) {
	component := etcd.Data.AsComponent()
	for name, test := range map[string]struct {
		edit    func(pod *corev1.PodSpec)
		refused bool
	}{
		"as it is rendered": {func(*corev1.PodSpec) {}, false},
		"another's keys":    {edit: func(pod *corev1.PodSpec) { volume(pod, "kok-backup").Secret.SecretName = "green-etcd-data-backup" }, refused: true},
		"the data of another's member": {edit: func(pod *corev1.PodSpec) {
			volume(pod, "kok-snapshots").PersistentVolumeClaim.ClaimName = "kok-data-green-etcd-data-0"
		}, refused: true},
		"a claim by another name":       {edit: func(pod *corev1.PodSpec) { volume(pod, "kok-snapshots").Name = "kok-claim" }, refused: true},
		"a trial without bounds":        {edit: func(pod *corev1.PodSpec) { volume(pod, "kok-trial").EmptyDir.SizeLimit = nil }, refused: true},
		"a container that mounts a key": {edit: func(pod *corev1.PodSpec) { pod.Containers[1].Name = "other" }, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := variants["backup-claim-restore"]()
			rendered, err := component.Rendered(in)
			if err != nil {
				t.Fatal(err)
			}
			test.edit(&podIn(t, rendered).Spec)
			stored := patches.Stored{Cluster: in.Cluster, Component: component.Name, Hosted: component.Patches}
			if problems := stored.Judge(rendered); (len(problems) > 0) != test.refused {
				t.Errorf("it is said: %v", problems)
			}
		})
	}
}

// Where snapshots are on a volume of each member, members have it from the beginning, and reach the agents of each other.
func TestMembersWithVolumesOfTheirOwnReachEachOther(t *testing.T) {
	for _, variant := range []string{"backup-s3", "backup-claim-restore", "backup-per-member"} {
		own := variant == "backup-per-member"
		in := variants[variant]()
		rendered, err := etcd.Data.AsComponent().Rendered(in)
		if err != nil {
			t.Fatal(err)
		}
		backupPort, admits := etcd.Data.Ports(in).Backup, false
		for _, object := range rendered {
			switch o := object.(type) {
			case *appsv1.StatefulSet:
				volumes := etcd.SnapshotVolumes(o)
				if (volumes != nil) != own || own && (*volumes.StorageClassName != "local" || volumes.Size.String() != "4Gi") || etcd.VolumeSize(o).String() != "8Gi" {
					t.Errorf("%s: the StatefulSet has %+v", variant, volumes)
				}
			case *networkingv1.NetworkPolicy:
				for _, rule := range o.Spec.Ingress {
					for _, port := range rule.Ports {
						admits = admits || port.Port.IntVal == backupPort && slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool {
							return p.PodSelector != nil && p.PodSelector.MatchLabels[names.ComponentLabel] == names.EtcdData
						})
					}
				}
			}
		}
		pod := podIn(t, rendered).Spec
		if named := slices.Contains(pod.Containers[1].Args, "--peer-name=blue-etcd-data"); named != own {
			t.Errorf("%s: the agent has %q", variant, pod.Containers[1].Args)
		}
		if in.Spec.Hosting.OnPodNetwork() && admits != own {
			t.Errorf("%s: it is %t that members may ask agents", variant, admits)
		}
	}
}

// Nobody can take volumes out of a StatefulSet, or add some to it.
func TestVolumesForSnapshotsStayAsTheyWereMade(t *testing.T) {
	made := perMember("local", "4Gi").PerMember
	stores := map[string]controlplanev1.EtcdSnapshotStore{"a bucket": backupToS3().Store, "a claim": {ClaimName: "snapshots"}, "a volume each": perMember("other", "8Gi")}
	for name, store := range stores {
		for _, former := range []*controlplanev1.PerMemberStoreSpec{nil, made} {
			in := variants["backup-s3"]()
			spec := backupToS3()
			spec.Store = store
			in.Spec.Etcd.Backup = spec
			in.Spec = components.Reduce(in.Spec)
			rendered, err := etcd.Data.AsComponent().Rendered(etcd.Data.WithSnapshotVolumes(in, former))
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range rendered {
				if set, ok := object.(*appsv1.StatefulSet); ok && !reflect.DeepEqual(etcd.SnapshotVolumes(set), former) {
					t.Errorf("%s, made with %v: it has %v", name, former, etcd.SnapshotVolumes(set))
				}
			}
			mounted := mounts(podIn(t, rendered).Spec.Containers[1])["/var/lib/kok-snapshots"] != ""
			if want := store.ClaimName != "" || store.PerMember != nil && former != nil; mounted != want {
				t.Errorf("%s, made with %v: it is %t that the store is mounted", name, former, mounted)
			}
		}
	}
	if in := variants["default"](); etcd.Events.WithSnapshotVolumes(in, made) != in || etcd.Data.WithSnapshotVolumes(in, nil) != in {
		t.Error("the input of others is another one")
	}
}

// A stored rendering must not claim the snapshots of another tenant's member.
func TestAStoredRenderingClaimsNoSnapshotsOfOthers(t *testing.T) {
	in := variants["backup-claim-restore"]()
	component := etcd.Data.AsComponent()
	rendered, err := component.Rendered(in)
	if err != nil {
		t.Fatal(err)
	}
	volume(&podIn(t, rendered).Spec, "kok-snapshots").PersistentVolumeClaim.ClaimName = "kok-own-snapshots-green-etcd-data-0"
	stored := patches.Stored{Cluster: in.Cluster, Component: component.Name, Hosted: component.Patches}
	if problems := stored.Judge(rendered); len(problems) == 0 {
		t.Error("it may")
	}
	in = variants["backup-per-member"]()
	if rendered, err = component.Rendered(in); err != nil {
		t.Fatal(err)
	}
	if problems := stored.Judge(rendered); len(problems) > 0 {
		t.Errorf("what is rendered is refused: %v", problems)
	}
}

func volume(pod *corev1.PodSpec, name string) *corev1.Volume {
	return &pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })]
}
