//go:build envtest

package controllers

import (
	"bytes"
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// tenantData are values in the etcds of a tenant, by key. package rewriting tries real ones.
type tenantData struct {
	lock   sync.Mutex
	values map[string]string
	// asked are the etcds that were looked at, by the address of a member.
	asked map[string]bool
}

func (d *tenantData) set(values map[string]string) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.values = values
}

// encrypts lets the manager look at data.
func (tt *tenantTest) encrypts(d *tenantData) {
	tt.program.etcd.EachValue = func(_ context.Context, members map[string]etcd.Address, _ *tls.Config, _ string, do func(string, []byte) bool) (string, error) {
		d.lock.Lock()
		defer d.lock.Unlock()
		if d.asked == nil {
			d.asked = map[string]bool{}
		}
		ofData := false
		for name, member := range members {
			d.asked[name+" "+member.Client] = true
			ofData = ofData || strings.Contains(name, "-etcd-data-")
		}
		for key, value := range d.values {
			if ofData {
				do(key, []byte(value))
			}
		}
		return "", nil
	}
}

func (tt *tenantTest) prepareBothKeys() {
	tt.t.Helper()
	tt.prepareKinds(controlplanev1.EncryptionKeyKind, controlplanev1.ServiceAccountKeyKind)
}

// boxes are the keys of the encryption configuration of each API server, in their order.
func (tt *tenantTest) boxes() map[string][]apiserverv1.Key {
	tt.t.Helper()
	pods, err := hostpods.List(tt.t.Context(), environment.Client, tt.cluster)
	if err != nil {
		tt.t.Fatal(err)
	}
	files, all := tt.keyMaterial(), map[string][]apiserverv1.Key{}
	for _, pod := range pods[names.KubeAPIServer] {
		for _, arg := range pod.Spec.Containers[0].Args {
			file, found := strings.CutPrefix(arg, "--encryption-provider-config=/etc/kubernetes/key-material/")
			if !found {
				continue
			}
			parsed := apiserverv1.EncryptionConfiguration{}
			if err := yaml.UnmarshalStrict(files[file], &parsed); err != nil || len(parsed.Resources) == 0 {
				tt.t.Fatalf("pod %s mounts %s, which is no configuration: %v", pod.Name, file, err)
			}
			all[pod.Name] = parsed.Resources[0].Providers[0].Secretbox.Keys
		}
		if len(all[pod.Name]) == 0 {
			tt.t.Fatalf("pod %s has no encryption key", pod.Name)
		}
	}
	return all
}

// boxesHave fails unless each API server has so many keys, and the named one at this index.
func (tt *tenantTest) boxesHave(name string, at, count int) {
	tt.t.Helper()
	boxes := tt.boxes()
	if len(boxes) == 0 {
		tt.t.Error("there is no API server")
	}
	for pod, keys := range boxes {
		if len(keys) != count || keys[at].Name != name {
			tt.t.Errorf("pod %s has keys %v", pod, keys)
		}
	}
}

// readsWhatOthersWrite fails where an API server writes by a key that another one does not read by.
func (tt *tenantTest) readsWhatOthersWrite() {
	tt.t.Helper()
	boxes := tt.boxes()
	for writer, keys := range boxes {
		for reader, known := range boxes {
			if !slices.Contains(known, keys[0]) {
				tt.t.Errorf("pod %s writes by %s, and pod %s does not read by it", writer, keys[0].Name, reader)
			}
		}
	}
}

// Each restart of an API server is for both kinds. Nothing that is encrypted is given up.
func TestBothKindsRotateTogether(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt, data := beforeRotation(t), &tenantData{}
	tt.encrypts(data)
	born := tt.keyMaterial()
	const ofFormer, ofAnother = "k8s:enc:secretbox:v1:key1:…", "k8s:enc:secretbox:v1:key-abcdef0123:…"
	data.set(map[string]string{
		"/registry/secrets/default/a": ofFormer, "/registry/secrets/default/b": ofFormer, "/registry/example.org/widgets/c": ofAnother, "/registry/nodes/d": "k8s\x00",
	})

	tt.prepareBothKeys()
	tt.settleKeeping()
	file := tt.file()
	box := tt.rotationOf("encryption.rotation")
	objects := "objects/"
	for name := range tt.keyMaterial() {
		if rest, found := strings.CutPrefix(name, "encryption-key-"); found {
			objects += rest
		}
	}
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "service account key (Prepared", "encryption key (Prepared", "pod-tokens/"+file,
		objects+"/secrets (2 are encrypted by the former key)", objects+"/widgets.example.org (1 are", "spec.keyRotation.completeAfter")
	tt.wasMade(names.KubeAPIServer, 3)
	tt.wasMade(names.KubeControllerManager, 2)
	tt.wasMade(names.KubeScheduler, 1)
	tt.wasMade(names.EtcdData, 1)
	tt.boxesHave("key-"+strings.TrimPrefix(objects, "objects/"), 0, 3)
	for _, member := range []string{"blue-etcd-data-0 https://", "blue-etcd-events-0 https://"} {
		found := false
		for asked := range data.asked {
			found = found || strings.HasPrefix(asked, member) && strings.Contains(asked, "127.250.")
		}
		if !found {
			t.Errorf("%s… was not looked at: %v", member, data.asked)
		}
	}

	// The former keys are not dropped while one of them is needed.
	tt.completeKeys("pod-tokens/" + file)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "service account key (Prepared", "waits for the encryption key",
		"the former key is needed by "+objects+"/secrets (2 are encrypted by the former key), "+objects+"/widgets.example.org")
	tt.wasMade(names.KubeAPIServer, 3)

	// A restore in place may bring more of it.
	data.set(nil)
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		c.Spec.Etcd.Restore = &controlplanev1.EtcdRestoreSpec{Snapshot: "missing", RequestedAt: metav1.NewTime(time.Now().Truncate(time.Second))}
	})
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, objects+" (spec.etcd.restore asks for a restore in place")
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Restore = nil })

	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "service account key (Over", "encryption key (Over")
	tt.wasMade(names.KubeAPIServer, 4)
	tt.wasMade(names.KubeControllerManager, 2)
	tt.wasMade(names.EtcdData, 1)
	tt.boxesHave("key-"+strings.TrimPrefix(objects, "objects/"), 0, 1)
	tt.keyMaterialHasNone(born["encryption-key"])
	if got := tt.keys()["blue-encryption"]; !bytes.Equal(got["encryption-key"], box.Key["encryption-key"]) || len(got) != 1 {
		t.Error("Cluster API's Secret does not have the new key alone")
	}
	if over := tt.rotationOf("encryption.rotation"); over.Phase != rotation.Over {
		t.Errorf("it is %s", over.Phase)
	}
}

// What is encrypted by the former key once more, such as after a restore from a survivor, is found before the key leaves the store. API
// servers read it again then, and write it by the new key.
func TestADroppedEncryptionKeyComesBackWhileSomethingNeedsIt(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt, data := beforeRotation(t), &tenantData{}
	tt.encrypts(data)
	tt.prepareKinds(controlplanev1.EncryptionKeyKind)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "encryption key (Prepared")
	if tt.rotationNow() != nil {
		t.Error("a kind rotates that nobody asked for")
	}
	tt.wasMade(names.KubeControllerManager, 1)
	born := tt.keyMaterial()["encryption-key"]
	tt.completeKeys()
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	if now := tt.rotationOf("encryption.rotation"); now.Phase != rotation.Dropping {
		t.Fatalf("it is %s", now.Phase)
	}
	for worked, err := true, error(nil); worked; {
		if worked, err = tt.host.work(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for pod, keys := range tt.boxes() {
		if len(keys) != 1 {
			t.Errorf("pod %s has keys %v", pod, keys)
		}
	}
	data.set(map[string]string{"/registry/secrets/default/a": "k8s:enc:secretbox:v1:key1:…"})
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "the former key is needed by objects/", "/secrets (1 are encrypted")
	tt.boxesHave("key1", 1, 3)
	if !bytes.Equal(tt.keys()["blue-encryption"]["encryption-key"], born) {
		t.Error("the former key is gone")
	}
	data.set(nil)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "encryption key (Over")
}

// An API server on a host node that was deleted by mistake writes by the former key after the look at etcd. Looks go on in the
// background as they do in a manager.
func TestALookFromBeforeTheRequestIsNoProof(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt, data := beforeRotation(t), &tenantData{}
	tt.encrypts(data)
	now := clocktesting.NewFakeClock(time.Now().Add(2 * time.Minute))
	tt.program.Clock = now
	tt.program.inBackground(t)
	tt.prepareKinds(controlplanev1.EncryptionKeyKind)
	tt.rotatesUntil("nothing needs the former key", func(phase rotation.Phase, says string) bool {
		return phase == rotation.Prepared && !strings.Contains(says, "objects/")
	})

	data.set(map[string]string{"/registry/secrets/default/a": "k8s:enc:secretbox:v1:key1:…"})
	tt.completeKeys()
	tt.rotatesUntil("it is found", func(phase rotation.Phase, says string) bool {
		if phase == rotation.Dropping {
			t.Fatal("the former key is dropped by an old look")
		}
		return strings.Contains(says, "/secrets (1 are encrypted")
	})
	data.set(nil)
	now.Step(time.Hour) // A look that brought nothing forward is not repeated at once.
	tt.rotatesUntil("it is over", func(phase rotation.Phase, _ string) bool { return phase == rotation.Over })
}

// rotatesUntil reconciles and has the host cluster work until the rotation of the encryption key, and what is told of it, is as wanted.
func (tt *tenantTest) rotatesUntil(what string, is func(phase rotation.Phase, says string) bool) {
	tt.t.Helper()
	says := ""
	err := wait.PollUntilContextTimeout(tt.t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := tt.reconcile(); err != nil {
			return false, err
		}
		if told := conditions.Get(tt.controlPlane(), conditionsv1.KeysRotatingCondition); told != nil {
			says = told.Message
		}
		tt.keepsThePromises()
		if now := tt.rotationOf("encryption.rotation"); now != nil && is(now.Phase, says) {
			return true, nil
		}
		_, err := tt.host.work(ctx)
		return false, err
	})
	if err != nil {
		tt.t.Fatalf("wait until %s: %v; it says %q", what, err, says)
	}
}
