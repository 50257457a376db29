//go:build attack

package namespaceuser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
)

// victim is the namespace of others: of two control planes, one on the network of its hosts and one on the pod network, and of
// Secrets that they marked as those that may be given to tenants of theirs.
const (
	victim          = "victim"
	hostNetworkName = "red"
	podNetworkName  = "white"
)

// victims are the host ports and the users that the victim's control planes have.
var victims struct {
	ports, nodePort int32
	users           []int64
}

// victimSecrets are as each reference of our kinds wants them. Their names are those that the attacker gives to Secrets of their own.
func victimSecrets(namespace, content string) []*corev1.Secret {
	secret := func(name string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{giveaway.Label: giveaway.Allowed}},
			Type:       kind, StringData: data,
		}
	}
	return []*corev1.Secret{
		secret("file", corev1.SecretTypeOpaque, map[string]string{"key": content}),
		secret("mirror", corev1.SecretTypeBasicAuth, map[string]string{"username": "u", "password": content}),
		secret("registry", corev1.SecretTypeDockerConfigJson, map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"a.example":{"username":"u","password":"` + content + `"}}}`}),
		secret("bootstrap", corev1.SecretTypeOpaque, map[string]string{"value": "#cloud-config\n# " + content, "format": "cloud-config"}),
	}
}

// software is a KOKSoftware with a mirror that wants a password.
func software(namespace, name, password string) *bootstrapv1.KOKSoftware {
	described := &bootstrapv1.KOKSoftware{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	sum := strings.Repeat("0", 64)
	described.Spec.Installers = []bootstrapv1.SoftwareInstaller{{Architecture: "amd64", URLs: []string{"https://a.example/kok-software"}, SHA256: sum}}
	described.Spec.Mirrors = []bootstrapv1.SoftwareMirror{{Prefix: "https://a.example/", Endpoints: []bootstrapv1.SoftwareEndpoint{
		{URL: "https://mirror.example/", SecretRef: bootstrapv1.SecretReference{Name: password}},
	}}}
	described.Spec.Components = []bootstrapv1.SoftwareComponent{{Name: "kubelet", Variants: []bootstrapv1.SoftwareVariant{{Archive: bootstrapv1.SoftwareArchive{
		URLs: []string{"https://a.example/kubelet"}, SHA256: sum, Unpack: []bootstrapv1.SoftwareUnpack{{To: "/usr/local/bin/kubelet"}},
	}}}}}
	return described
}

// settleVictim makes what the attacker is after, and waits until the managers have done what they can.
func (s *stage) settleVictim(ctx context.Context) error {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: victim}}}
	for _, secret := range victimSecrets(victim, marker) {
		objects = append(objects, secret)
	}
	onPodNetwork := single(victim, podNetworkName)
	onPodNetwork.Spec.Hosting.NetworkMode = controlplanev1.NetworkModePod
	onPodNetwork.Spec.Hosting.Exposure.Type = controlplanev1.ExposureNodePort
	objects = append(objects,
		software(victim, "software-v1.36.3", "mirror"), clusterOf(victim, hostNetworkName), single(victim, hostNetworkName),
		clusterOf(victim, podNetworkName), onPodNetwork,
	)
	for _, object := range objects {
		if err := s.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = s.learnOfVictim(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the victim's control planes are there: %w: %w", err, last)
	}
	return nil
}

// learnOfVictim finds out which ports and users the victim's control planes have.
func (s *stage) learnOfVictim(ctx context.Context) error {
	if problem := s.ended(); problem != "" {
		return errors.New(problem)
	}
	victims.users = nil
	for _, name := range []string{hostNetworkName, podNetworkName} {
		for _, etcd := range []string{"-etcd-data", "-etcd-events"} {
			set := &appsv1.StatefulSet{}
			if err := s.client.Get(ctx, client.ObjectKey{Namespace: victim, Name: name + etcd}, set); err != nil {
				return err
			}
			victims.users = append(victims.users, *set.Spec.Template.Spec.SecurityContext.RunAsUser)
		}
		plane := &controlplanev1.KOKControlPlane{}
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: victim, Name: name}, plane); err != nil {
			return err
		}
		// While no pod runs, the manager writes nothing after the endpoint. A status of that spec tells of a reconcile without an error.
		if plane.Spec.ControlPlaneEndpoint.Host == "" || plane.Status.ObservedGeneration != plane.Generation {
			return fmt.Errorf("%s has endpoint %+v, and its status is of generation %d of %d", name, plane.Spec.ControlPlaneEndpoint, plane.Status.ObservedGeneration, plane.Generation)
		}
	}
	plane, service := &controlplanev1.KOKControlPlane{}, &corev1.Service{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: victim, Name: hostNetworkName}, plane); err != nil {
		return err
	}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: victim, Name: podNetworkName + "-kube-apiserver"}, service); err != nil {
		return err
	}
	victims.ports, victims.nodePort = plane.Spec.Hosting.Ports.First, service.Spec.Ports[0].NodePort
	if victims.ports == 0 || victims.nodePort == 0 {
		return fmt.Errorf("host ports %d, node port %d", victims.ports, victims.nodePort)
	}
	return nil
}
