//go:build envtest

package controllers

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcdclusters"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/hostpods"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status/statustest"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/sample"
)

const (
	etcdRotation   = "etcd-ca.rotation"
	eventsRotation = "etcd-events-ca.rotation"
)

// memberFiles are the files that a member finds under their paths, of the Secret with certificates of its etcd.
func memberFiles(pod *corev1.Pod, secret map[string][]byte) (files map[string][]byte, err error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "kok-certs" })
	if i < 0 || pod.Spec.Volumes[i].Projected == nil {
		return secret, nil
	}
	files = map[string][]byte{}
	for _, source := range pod.Spec.Volumes[i].Projected.Sources {
		for _, item := range source.Secret.Items {
			if len(secret[item.Key]) > 0 {
				files[item.Path] = secret[item.Key]
			} else if !ptr.Deref(source.Secret.Optional, false) {
				err = errors.Join(err, fmt.Errorf("pod %s does not start without %s", pod.Name, item.Key))
			}
		}
	}
	return files, err
}

// vouchesFor reports whether a file with CAs has one that signed a leaf.
func vouchesFor(cas, leaf []byte) bool {
	shown, err := certs.DecodeCertPEM(leaf)
	return err == nil && slices.ContainsFunc(splitCertificates(cas), func(ca string) bool {
		signer, err := certs.DecodeCertPEM([]byte(ca))
		return err == nil && shown.CheckSignatureFrom(signer) == nil
	})
}

// letsIn says why a member does not let in a client with this configuration, or that one not the member; nil when they work together.
func letsIn(member string, files map[string][]byte, config *tls.Config) error {
	shown, err := config.GetClientCertificate(nil)
	if err != nil {
		return err
	}
	if !vouchesFor(files["client-ca.crt"], certs.EncodeCertPEM(&x509.Certificate{Raw: shown.Certificate[0]})) {
		return fmt.Errorf("%s refuses the manager's certificate", member)
	}
	leaf, err := certs.DecodeCertPEM(files[member+".crt"])
	if err != nil {
		return err
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: config.RootCAs})
	return err
}

// certsOf is the Secret with certificates of a component; nil where there is none.
func certsOf(t *testing.T, namespace, component string) map[string][]byte {
	secret := &corev1.Secret{}
	err := environment.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "blue-" + component + "-certs"}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	return secret.Data
}

// trustsEtcd fails where a member of etcd or an API server shows a certificate that one does not trust to which it is shown.
func (tt *tenantTest) trustsEtcd() {
	tt.t.Helper()
	pods, err := hostpods.List(tt.t.Context(), environment.Client, tt.cluster)
	if err != nil {
		tt.t.Fatal(err)
	}
	servers, ofServers := pods[names.KubeAPIServer], certsOf(tt.t, tt.key.Namespace, names.KubeAPIServer)
	for _, component := range etcdclusters.Of(tt.controlPlane()) {
		members, secret := map[string]map[string][]byte{}, certsOf(tt.t, tt.key.Namespace, component)
		for i := range pods[component] {
			pod := &pods[component][i]
			if members[pod.Name], err = memberFiles(pod, secret); err != nil {
				tt.t.Error(err)
			}
		}
		for member, has := range members {
			for other, trusts := range members {
				if !vouchesFor(trusts["ca.crt"], has["peer-client.crt"]) || !vouchesFor(trusts["ca.crt"], has[member+".crt"]) {
					tt.t.Errorf("member %s does not take %s for a peer", other, member)
				}
			}
			for i := range servers {
				if !vouchesFor(has["client-ca.crt"], ofServers[argumentOf(&servers[i], "etcd-certfile")]) {
					tt.t.Errorf("member %s does not let in API server %s", member, servers[i].Name)
				}
				if !vouchesFor(ofServers[argumentOf(&servers[i], "etcd-cafile")], has[member+".crt"]) {
					tt.t.Errorf("API server %s does not trust member %s", servers[i].Name, member)
				}
			}
		}
	}
}

// hasNoneOf fails where a Secret has one of the CAs that a tenant was born with, or a leaf by one.
func (tt *tenantTest) hasNoneOf(born map[string][]byte, cas ...string) {
	tt.t.Helper()
	secrets := &corev1.SecretList{}
	if err := environment.Client.List(tt.t.Context(), secrets, client.InNamespace(tt.key.Namespace)); err != nil {
		tt.t.Fatal(err)
	}
	for _, ca := range cas {
		for _, secret := range secrets.Items {
			for key, value := range secret.Data {
				if bytes.Contains(value, bytes.TrimSpace(born[ca+".key"])) || bytes.Contains(value, bytes.TrimSpace(born[ca+".crt"])) ||
					path.Ext(key) == ".crt" && vouchesFor(born[ca+".crt"], value) {
					tt.t.Errorf("Secret %s has the former %s, or a leaf by it, in %s", secret.Name, ca, key)
				}
			}
		}
	}
}

// wereMade fails unless pods of components were made so many times.
func (tt *tenantTest) wereMade(times map[string]int) {
	tt.t.Helper()
	for component, count := range times {
		tt.wasMade(component, count)
	}
}

// Members of both etcds restart for the CA of the data, those of events when they come to trust another alone.
func TestTheCAOfTheDataEtcdRotatesInTwoPhases(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := beforeRotation(t)
	born := tt.keyMaterial()
	tt.prepareKinds(controlplanev1.EtcdCAKind)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "etcd CA (Prepared", "spec.keyRotation.completeAfter", "certificates that people took")
	made := tt.rotationOf(etcdRotation)
	tt.wereMade(map[string]int{names.EtcdData: 3, names.EtcdEvents: 2, names.KubeAPIServer: 3, names.KubeControllerManager: 1, names.KubeScheduler: 1})
	if tt.rotationOf(eventsRotation) != nil || tt.rotationNow() != nil {
		t.Error("a kind rotates that nobody asked for")
	}

	tt.completeKeys()
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "etcd CA (Over")
	tt.wereMade(map[string]int{names.EtcdData: 4, names.EtcdEvents: 3, names.KubeAPIServer: 4, names.KubeControllerManager: 1, names.KubeScheduler: 1})
	tt.hasNoneOf(born, "etcd-ca")
	if got := tt.keys()["blue-etcd"]; !maps.EqualFunc(got, made.Key, bytes.Equal) {
		t.Error("Cluster API's Secret does not have the new pair alone")
	}
	if refused := tt.told.refused(); len(refused) > 0 {
		t.Errorf("the manager was refused: %v", refused)
	}

	// The next one begins with a CA that a rotation made.
	tt.prepareKinds(controlplanev1.EtcdCAKind)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "etcd CA (Prepared")
	tt.wereMade(map[string]int{names.EtcdData: 6, names.EtcdEvents: 4, names.KubeAPIServer: 6})
}

// Three members of each etcd restart one by one, as often for both CAs as for one.
func TestBothCAsOfEtcdRotateTogether(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Etcd.Data.Replicas, c.Spec.Etcd.Events.Replicas = ptr.To[int32](3), ptr.To[int32](3)
	})
	tt.tellEtcd(3)
	tt.settle()
	born := tt.keyMaterial()
	tt.prepareKinds(controlplanev1.EtcdEventsCAKind, controlplanev1.EtcdCAKind)
	tt.settleWith(2)
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "etcd CA (Prepared", "events etcd CA (Prepared")
	tt.wereMade(map[string]int{names.EtcdData: 3, names.EtcdEvents: 3, names.KubeAPIServer: 3})
	tt.completeKeys()
	tt.settleWith(2)
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "etcd CA (Over", "events etcd CA (Over")
	tt.wereMade(map[string]int{names.EtcdData: 4, names.EtcdEvents: 4, names.KubeAPIServer: 4})
	tt.hasNoneOf(born, "etcd-ca", "etcd-events-ca")
	if refused := tt.told.refused(); len(refused) > 0 {
		t.Errorf("the manager was refused: %v", refused)
	}
}

// settleWith is settleKeeping, and fails where fewer members of an etcd work.
func (tt *tenantTest) settleWith(working int) {
	tt.t.Helper()
	tt.host.watched = func() {
		pods, err := hostpods.List(tt.t.Context(), environment.Client, tt.cluster)
		if err != nil {
			tt.t.Fatal(err)
		}
		for _, component := range etcdcomponent.Components() {
			count := 0
			for i := range pods[component] {
				if hostpods.Ready(&pods[component][i]) && pods[component][i].DeletionTimestamp == nil {
					count++
				}
			}
			if count < working {
				tt.t.Errorf("%d members of %s work", count, component)
			}
		}
	}
	defer func() { tt.host.watched = nil }()
	tt.settleKeeping()
}

// The CA of the events etcd is trusted by API servers alone, where events are in the data.
func TestTheCAOfTheEventsEtcdRotatesWhereEventsAreInTheData(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := newRollingTenantTest(t, eventsInData)
	tt.settle()
	born := tt.keyMaterial()
	tt.prepareKinds(controlplanev1.EtcdEventsCAKind, controlplanev1.EtcdCAKind)
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "etcd CA (Prepared", "events etcd CA (Prepared")
	tt.wereMade(map[string]int{names.EtcdData: 3, names.KubeAPIServer: 3})
	tt.completeKeys()
	tt.settleKeeping()
	tt.wereMade(map[string]int{names.EtcdData: 4, names.KubeAPIServer: 4})
	tt.hasNoneOf(born, "etcd-ca", "etcd-events-ca")
}

// Members that would lose their data are not restarted: the rotation does not begin.
func TestNoCAOfEtcdRotatesWhereMembersWouldLoseTheirData(t *testing.T) {
	t.Parallel()
	tt := newRollingTenantTest(t, single)
	tt.settle()
	tt.prepareKinds(controlplanev1.EtcdCAKind)
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "etcd CA: has not begun: members of etcd-data and etcd-events would have to restart")
	if tt.rotationOf(etcdRotation) != nil {
		t.Error("it has begun")
	}
	tt.wereMade(map[string]int{names.EtcdData: 1, names.EtcdEvents: 1, names.KubeAPIServer: 1})
}

// Members that are added meanwhile begin with what the phase needs: the rotation goes on, and so does the change.
func TestMembersAreAddedWhileTheCAOfEtcdRotates(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := newRollingTenantTest(t, lasting)
	threeHostNodes(t)
	tt.settle()
	tt.prepareKinds(controlplanev1.EtcdCAKind)
	if err := tt.reconcile(); err != nil {
		t.Fatal(err)
	}
	edit(t, tt.key, &controlplanev1.KOKControlPlane{}, func(c *controlplanev1.KOKControlPlane) { c.Spec.Etcd.Data.Replicas = ptr.To[int32](3) })
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "etcd CA (Prepared")
	if got := etcdclusters.Voters(tt.controlPlane(), names.EtcdData); got != 3 {
		t.Errorf("%d members vote", got)
	}
	tt.completeKeys()
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionFalse, conditionsv1.KeysNotRotatingReason, "etcd CA (Over")
	if refused := tt.told.refused(); len(refused) > 0 {
		t.Errorf("the manager was refused: %v", refused)
	}
}

// A member on a host node that is away may run still: the rotation names it, and no other member restarts.
func TestTheCAOfEtcdWaitsForAMemberThatIsAway(t *testing.T) {
	t.Parallel()
	sample.OneIn(t, 4, oneKindOfKey)
	tt := newRollingTenantTest(t, func(c *controlplanev1.KOKControlPlane) {
		lasting(c)
		c.Spec.Etcd.Data.Replicas = ptr.To[int32](3)
	})
	tt.tellEtcd(3)
	tt.settle()
	away := statustest.PodName(names.EtcdData, 2)
	pod := &corev1.Pod{}
	if err := environment.Client.Get(t.Context(), tt.inNamespace(away), pod); err != nil {
		t.Fatal(err)
	}
	tt.host.off[pod.Spec.NodeName] = true
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if err := environment.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	tt.prepareKinds(controlplanev1.EtcdCAKind)
	tt.settle()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparingReason, "etcd CA (Trusting", "pod "+away)
	for _, ordinal := range []int32{0, 1} {
		if got := tt.host.made[statustest.PodName(names.EtcdData, ordinal)]; got != 1 {
			t.Errorf("member %d was made %d times", ordinal, got)
		}
	}
	tt.host.off[pod.Spec.NodeName] = false
	tt.settleKeeping()
	tt.keysRotatingIs(metav1.ConditionTrue, conditionsv1.KeysPreparedReason, "etcd CA (Prepared")
}

// A manager that is killed after any write, or whose writes are refused, ends the same, and restarts no pod more often.
func TestARotationOfTheCAsOfEtcdSurvivesFaults(t *testing.T) {
	withFaults(t, beforeRotation, func(tt *tenantTest) {
		born := tt.keyMaterial()
		tt.prepareKinds(controlplanev1.EtcdCAKind, controlplanev1.EtcdEventsCAKind)
		tt.workThroughFaults()
		made, events := tt.rotationOf(etcdRotation), tt.rotationOf(eventsRotation)
		if made == nil || events == nil || made.Phase != rotation.Prepared || events.Phase != rotation.Prepared {
			tt.t.Fatalf("the rotations are %+v and %+v", made, events)
		}
		tt.wereMade(map[string]int{names.EtcdData: 3, names.EtcdEvents: 3, names.KubeAPIServer: 3, names.KubeScheduler: 1})
		tt.keepsThePromises()

		// A copy that is lost is made again as it is in the phase.
		kept := tt.keyMaterial()
		for _, name := range []string{"blue-key-rotation", "blue-etcd"} {
			lost := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tt.key.Namespace, Name: name}}
			if err := environment.Client.Delete(tt.t.Context(), lost); err != nil {
				tt.t.Fatal(err)
			}
		}
		tt.workThroughFaults()
		if !bytes.Equal(tt.keys()["blue-key-rotation"][etcdRotation], kept[etcdRotation]) || !bytes.Equal(tt.keys()["blue-etcd"]["tls.crt"], kept["etcd-ca.crt"]) {
			tt.t.Error("the copies are not as they were")
		}
		tt.wereMade(map[string]int{names.EtcdData: 3, names.EtcdEvents: 3, names.KubeAPIServer: 3})

		tt.completeKeys()
		tt.workThroughFaults()
		for dataKey, before := range map[string][]byte{etcdRotation: made.Key["tls.key"], eventsRotation: events.Key["tls.key"]} {
			if over := tt.rotationOf(dataKey); over.Phase != rotation.Over || !bytes.Equal(over.Key["tls.key"], before) {
				tt.t.Errorf("%s is %s, or has another key", dataKey, over.Phase)
			}
		}
		tt.wereMade(map[string]int{names.EtcdData: 4, names.EtcdEvents: 4, names.KubeAPIServer: 4, names.KubeScheduler: 1})
		tt.keepsThePromises()
		tt.hasNoneOf(born, "etcd-ca", "etcd-events-ca")
		if refused := tt.told.refused(); len(refused) > 0 {
			tt.t.Errorf("the manager was refused: %s", strings.Join(refused, ", "))
		}
	})
}
