//go:build envtest

package controllers

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

// askForKeys asks for new keys as a person does, of the kinds that were asked for before or of the service account key.
func (tt *tenantTest) askForKeys(change func(*controlplanev1.KeyRotationSpec)) {
	tt.t.Helper()
	edit(tt.t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) {
		if len(c.Spec.KeyRotation.Kinds) == 0 {
			c.Spec.KeyRotation.Kinds = []controlplanev1.KeyKind{controlplanev1.ServiceAccountKeyKind}
		}
		change(&c.Spec.KeyRotation)
	})
}

func (tt *tenantTest) prepareKeys() { tt.prepareKeysAt(time.Now()) }

func (tt *tenantTest) prepareKeysAt(at time.Time) {
	tt.t.Helper()
	tt.askForKeys(func(k *controlplanev1.KeyRotationSpec) { k.PrepareAfter = metav1.NewTime(at) })
}

// prepareKinds asks for a rotation of these kinds alone, now.
func (tt *tenantTest) prepareKinds(kinds ...controlplanev1.KeyKind) {
	tt.t.Helper()
	tt.askForKeys(func(k *controlplanev1.KeyRotationSpec) { k.Kinds, k.PrepareAfter = kinds, metav1.NewTime(time.Now()) })
}

// keyMaterialHasNone fails where a Secret with key material has a former key.
func (tt *tenantTest) keyMaterialHasNone(former ...[]byte) {
	tt.t.Helper()
	for name, data := range tt.keys() {
		for key, value := range data {
			if slices.ContainsFunc(former, func(f []byte) bool { return bytes.Contains(value, bytes.TrimSpace(f)) }) {
				tt.t.Errorf("Secret %s has a former key in %s", name, key)
			}
		}
	}
}

// completeKeys asks for the end of a rotation, and gives up what it shows to need the former key.
func (tt *tenantTest) completeKeys(giveUp ...string) {
	tt.t.Helper()
	tt.askForKeys(func(k *controlplanev1.KeyRotationSpec) { k.CompleteAfter, k.CompleteAnyway = k.PrepareAfter, giveUp })
}

// rotationNow is the rotation of the service account key as the host cluster's copy has it.
func (tt *tenantTest) rotationNow() *pki.Rotation {
	tt.t.Helper()
	return tt.rotationOf("sa.rotation")
}

func (tt *tenantTest) rotationOf(dataKey string) *pki.Rotation {
	tt.t.Helper()
	raw := tt.keyMaterial()[dataKey]
	if len(raw) == 0 {
		return nil
	}
	r := &pki.Rotation{}
	if err := json.Unmarshal(raw, r); err != nil {
		tt.t.Fatal(err)
	}
	return r
}

func (tt *tenantTest) keyMaterial() map[string][]byte {
	tt.t.Helper()
	secret := &corev1.Secret{}
	if err := environment.Client.Get(tt.t.Context(), tt.inNamespace("blue-key-material"), secret); err != nil {
		tt.t.Fatal(err)
	}
	return secret.Data
}

// file returns the end of the file names of the new key. The caller gives the ends of former keys.
func (tt *tenantTest) file(former ...string) string {
	tt.t.Helper()
	for name := range tt.keyMaterial() {
		rest, made := strings.CutPrefix(name, "sa-")
		if file := strings.TrimSuffix(strings.TrimSuffix(rest, ".pub"), ".key"); made && !slices.Contains(former, file) {
			return file
		}
	}
	tt.t.Fatal("there is no new key")
	return ""
}

// keyArguments are the files of service account keys that each pod of a component names, by pod.
func (tt *tenantTest) keyArguments(component string) map[string][]string {
	tt.t.Helper()
	pods, err := hostpods.List(tt.t.Context(), environment.Client, tt.cluster)
	if err != nil {
		tt.t.Fatal(err)
	}
	all := map[string][]string{}
	for _, pod := range pods[component] {
		all[pod.Name] = nil
		for _, arg := range pod.Spec.Containers[0].Args {
			if name, _, _ := strings.Cut(arg, "="); strings.HasPrefix(name, "--service-account-") && strings.HasSuffix(name, "-file") {
				all[pod.Name] = append(all[pod.Name], strings.ReplaceAll(arg, "/etc/kubernetes/key-material/", ""))
			}
		}
	}
	return all
}

// keepsThePromises fails where an API server signs with a key that another one does not trust, or where one names a file that the Secret
// does not have.
func (tt *tenantTest) keepsThePromises() {
	tt.t.Helper()
	tt.readsWhatOthersWrite()
	tt.trustsWhatOthersShow()
	tt.trustsEtcd()
	if tt.host.watched != nil {
		tt.host.watched()
	}
	files := tt.keyMaterial()
	pods := tt.keyArguments(names.KubeAPIServer)
	for signer, args := range pods {
		for _, arg := range args {
			_, file, _ := strings.Cut(arg, "=")
			if len(files[file]) == 0 {
				tt.t.Errorf("pod %s mounts %s, which is not there", signer, file)
			}
			key, signs := strings.CutPrefix(arg, "--service-account-signing-key-file=")
			if !signs {
				continue
			}
			trusted := "--service-account-key-file=" + strings.TrimSuffix(key, ".key") + ".pub"
			for other, trusts := range pods {
				if !slices.Contains(trusts, trusted) {
					tt.t.Errorf("pod %s signs with %s, and pod %s does not trust it", signer, key, other)
				}
			}
		}
	}
}

// settleKeeping settles and checks the promises after each reconcile, and each time the host cluster has worked.
func (tt *tenantTest) settleKeeping() {
	tt.t.Helper()
	for range manyRounds {
		tt.program.gate.take()
		if err := tt.reconcile(); err != nil {
			tt.t.Fatal(err)
		}
		wrote := len(tt.program.gate.takeWrites()) > 0
		tt.keepsThePromises()
		worked, err := tt.host.work(tt.t.Context())
		if err != nil {
			tt.t.Fatal(err)
		}
		tt.keepsThePromises()
		if !wrote && !worked {
			return
		}
	}
	tt.t.Fatal("it does not come to rest")
}

func (tt *tenantTest) keysRotatingIs(status metav1.ConditionStatus, reason string, says ...string) {
	tt.t.Helper()
	got := conditions.Get(tt.controlPlane(), conditionsv1.KeysRotatingCondition)
	if got == nil || got.Status != status || got.Reason != reason {
		tt.t.Fatalf("the condition is %+v", got)
	}
	for _, part := range says {
		if !strings.Contains(got.Message, part) {
			tt.t.Errorf("the condition says %q, want %q", got.Message, part)
		}
	}
}

// wasMade fails unless each pod of a component was made so many times.
func (tt *tenantTest) wasMade(component string, times int) {
	tt.t.Helper()
	found := false
	for name, made := range tt.host.made {
		if strings.HasPrefix(name, "blue-"+component+"-") {
			if found = true; made != times {
				tt.t.Errorf("pod %s was made %d times, want %d", name, made, times)
			}
		}
	}
	if !found {
		tt.t.Errorf("no pod of %s was made", component)
	}
}

func beforeRotation(t *testing.T) *tenantTest {
	t.Helper()
	tt := newRollingTenantTest(t, lasting)
	tt.settle()
	return tt
}

func TestTheServiceAccountKeyRotatesInTwoPhases(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := beforeRotation(t)
	born := tt.keyMaterial()
	if conditions.Get(tt.controlPlane(), conditionsv1.KeysRotatingCondition) != nil {
		t.Error("the condition is there before anybody asks for a rotation")
	}
	before := tt.keyArguments(names.KubeAPIServer)

	tt.prepareKeysAt(time.Now().Add(24 * time.Hour))
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "the next rotation begins at 20")
	if !maps.EqualFunc(before, tt.keyArguments(names.KubeAPIServer), slices.Equal) {
		t.Error("API servers restarted before the time")
	}

	tt.prepareKeysAt(time.Now().Add(-time.Hour))
	tt.settleKeeping()
	file := tt.file()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "service account key (Prepared", "pod-tokens/"+file, "spec.keyRotation.completeAfter", "tokens that were handed out")
	for pod, args := range tt.keyArguments(names.KubeAPIServer) {
		if want := []string{"--service-account-key-file=sa.pub", "--service-account-key-file=sa-" + file + ".pub", "--service-account-signing-key-file=sa-" + file + ".key"}; !slices.Equal(args, want) {
			t.Errorf("pod %s names %v", pod, args)
		}
	}
	if maps.EqualFunc(before, tt.keyArguments(names.KubeAPIServer), slices.Equal) {
		t.Error("no API server restarted")
	}
	for pod, args := range tt.keyArguments(names.KubeControllerManager) {
		if want := []string{"--service-account-private-key-file=sa-" + file + ".key"}; !slices.Equal(args, want) {
			t.Errorf("pod %s names %v", pod, args)
		}
	}
	tt.wasMade(names.KubeAPIServer, 3)
	tt.wasMade(names.KubeControllerManager, 2)
	tt.wasMade(names.KubeScheduler, 1)
	tt.wasMade(names.EtcdData, 1)

	// Nothing is dropped while something needs the former key.
	former := tt.tokenOf(born["sa.pub"])
	tt.completeKeys("pod-tokens/" + file)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "needed by secret/"+file+"/"+former, "spec.keyRotation.completeAnyway")
	if now := tt.rotationNow(); now.Phase != rotation.Prepared {
		t.Fatalf("it is %s", now.Phase)
	}

	tt.completeKeys("pod-tokens/"+file, "secret/"+file+"/"+former)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "service account key (Over")
	for pod, args := range tt.keyArguments(names.KubeAPIServer) {
		if want := []string{"--service-account-key-file=sa-" + file + ".pub", "--service-account-signing-key-file=sa-" + file + ".key"}; !slices.Equal(args, want) {
			t.Errorf("pod %s names %v", pod, args)
		}
	}
	tt.wasMade(names.KubeAPIServer, 4)
	tt.wasMade(names.KubeControllerManager, 2)
	tt.wasMade(names.KubeScheduler, 1)
	tt.wasMade(names.EtcdData, 1)
	tt.keyMaterialHasNone(born["sa.key"])
	contract := tt.keys()["blue-sa"]
	if !bytes.Equal(contract["tls.key"], tt.keyMaterial()["sa-"+file+".key"]) || len(contract) != 2 {
		t.Error("Cluster API's Secret does not have the new pair alone")
	}

	// Another time asks for another one. The names that were given up are not those of the next.
	if err := environment.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "builder-token"}}); err != nil {
		t.Fatal(err)
	}
	former = tt.tokenOf(tt.keyMaterial()["sa-"+file+".pub"])
	tt.prepareKeys()
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "pod-tokens/"+tt.file(file), "secret/"+tt.file(file)+"/"+former)
	tt.wasMade(names.KubeAPIServer, 6)
}

// Kubelets renew the last token of a pod a day after the former key signed it. Nobody has to give that up who waits.
func TestTheFormerKeyIsDroppedWhenTokensOfPodsAreRenewed(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := beforeRotation(t)
	now := clocktesting.NewFakeClock(time.Now())
	tt.program.Clock = now
	tt.host.clock.Store(now)
	tt.prepareKeysAt(now.Now().Add(-time.Hour))
	tt.settle()
	since, err := time.Parse(time.RFC3339, tt.rotationNow().Since)
	if err != nil {
		t.Fatal(err)
	}
	tt.completeKeys()
	waits := func(when string) {
		t.Helper()
		tt.settle()
		tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "pod-tokens/"+tt.file(), "until "+since.Add(24*time.Hour+10*time.Minute).UTC().Format(time.RFC3339))
		if phase := tt.rotationNow().Phase; phase != rotation.Prepared {
			t.Fatalf("%s it is %s", when, phase)
		}
	}
	waits("at first")
	now.SetTime(since.Add(24*time.Hour + 10*time.Minute - time.Second))
	waits("before the end")
	now.Step(time.Second)
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "service account key (Over")
}

// tokenOf makes a Secret with a token of the key, as kube-controller-manager does, and returns its name.
func (tt *tenantTest) tokenOf(public []byte) string {
	tt.t.Helper()
	keys, err := keyutil.ParsePublicKeysPEM(public)
	if err != nil {
		tt.t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(keys[0])
	if err != nil {
		tt.t.Fatal(err)
	}
	hash := sha256.Sum256(der)
	header := fmt.Sprintf(`{"alg":"ES256","kid":%q}`, base64.RawURLEncoding.EncodeToString(hash[:]))
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "builder-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "builder"}},
		Type:       corev1.SecretTypeServiceAccountToken,
		Data:       map[string][]byte{corev1.ServiceAccountTokenKey: []byte(base64.RawURLEncoding.EncodeToString([]byte(header)) + ".e30.c2ln")},
	}
	if err := environment.Client.Create(tt.t.Context(), secret); err != nil {
		tt.t.Fatal(err)
	}
	return client.ObjectKeyFromObject(secret).String()
}

// A manager that is killed after any write, or whose writes are refused, ends the same, and restarts no pod more often: not for two
// kinds either.
func TestARotationSurvivesFaults(t *testing.T) {
	withFaults(t, beforeRotation, func(tt *tenantTest) {
		tt.encrypts(&tenantData{})
		tt.prepareBothKeys()
		tt.workThroughFaults()
		made, box := tt.rotationNow(), tt.rotationOf("encryption.rotation")
		if made == nil || box == nil || made.Phase != rotation.Prepared || box.Phase != rotation.Prepared {
			tt.t.Fatalf("the rotations are %+v and %+v", made, box)
		}
		tt.wasMade(names.KubeAPIServer, 3)
		tt.wasMade(names.KubeControllerManager, 2)
		tt.completeKeys("pod-tokens/" + tt.file())
		tt.workThroughFaults()
		over, boxOver := tt.rotationNow(), tt.rotationOf("encryption.rotation")
		if over.Phase != rotation.Over || !bytes.Equal(over.Key["tls.key"], made.Key["tls.key"]) {
			tt.t.Errorf("it is %s, or has another key", over.Phase)
		}
		if boxOver.Phase != rotation.Over || !bytes.Equal(boxOver.Key["encryption-key"], box.Key["encryption-key"]) {
			tt.t.Errorf("the encryption key is %s, or another one", boxOver.Phase)
		}
		if !bytes.Equal(tt.keys()["blue-sa"]["tls.key"], made.Key["tls.key"]) || !bytes.Equal(tt.keys()["blue-encryption"]["encryption-key"], box.Key["encryption-key"]) {
			tt.t.Error("Cluster API's Secrets do not have the new keys")
		}
		tt.wasMade(names.KubeAPIServer, 4)
		tt.wasMade(names.KubeControllerManager, 2)
		tt.wasMade(names.EtcdData, 1)
		tt.keepsThePromises()
	})
}

// clusterctl move drops the status. What was done is in Secrets.
func TestARotationOutlivesTheStatus(t *testing.T) {
	t.Parallel()
	tt := beforeRotation(t)
	tt.prepareKeys()
	tt.settle()
	before := tt.rotationNow()
	controlPlane := tt.controlPlane()
	controlPlane.Status = controlplanev1.KOKControlPlaneStatus{}
	if err := environment.Client.Status().Update(t.Context(), controlPlane); err != nil {
		t.Fatal(err)
	}
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.KeyRotation = controlplanev1.KeyRotationSpec{} })
	tt.settle()
	if after := tt.rotationNow(); after.Record != before.Record || !bytes.Equal(after.Key["tls.key"], before.Key["tls.key"]) {
		t.Errorf("it was %+v and is %+v", before.Record, after.Record)
	}
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason)
	tt.wasMade(names.KubeAPIServer, 3)
}

// Both copies of the new key are gone, and API servers sign with it: nothing is made anew, and a person is told.
func TestALostRotationIsForAPerson(t *testing.T) {
	t.Parallel()
	tt := beforeRotation(t)
	tt.prepareKeys()
	tt.settle()
	kept := tt.keyMaterial()
	edit(t, tt.inNamespace("blue-key-material"), &corev1.Secret{}, func(s *corev1.Secret) { delete(s.Data, "sa.rotation") })
	rotations := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: "blue-key-rotation"}}
	if err := environment.Client.Delete(t.Context(), rotations); err != nil {
		t.Fatal(err)
	}
	tt.settle()
	got := conditions.Get(tt.controlPlane(), conditionsv1.CertificatesAvailableCondition)
	if got.Reason != conditionsv1.KeyMaterialLostReason || !strings.Contains(got.Message, "blue-key-rotation") {
		t.Fatalf("the condition is %+v", got)
	}
	tt.wasMade(names.KubeAPIServer, 3)
	edit(t, tt.inNamespace("blue-key-material"), &corev1.Secret{}, func(s *corev1.Secret) { s.Data["sa.rotation"] = kept["sa.rotation"] })
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason)
	if !bytes.Equal(tt.keys()["blue-key-rotation"]["sa.rotation"], kept["sa.rotation"]) {
		t.Error("the other copy is not there again")
	}
	tt.wasMade(names.KubeAPIServer, 3)
}
