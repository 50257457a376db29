//go:build attack

package namespaceuser

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// errGone is of a try whose object went without touching what it named.
var errGone = errors.New("it went, and nothing that is another's with it")

// nothing leaves a control plane as it is.
func nothing(*controlplanev1.KOKControlPlane) {}

func withLabels(meta metav1.ObjectMeta, labels map[string]string) metav1.ObjectMeta {
	meta.Labels = labels
	return meta
}

// merge is a merge patch.
func merge(format string, values ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, values...))
}

// gone reports whether an object is there no more.
func (a *attacker) gone(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := management.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	}
}

// running is a control plane of the attacker whose first objects are there.
func (a *attacker) running(edit edit) *controlplanev1.KOKControlPlane {
	a.t.Helper()
	made, err := a.tenant(edit)
	if err != nil {
		a.t.Fatal(err)
	}
	eventually(a.t, "the control plane's etcd is there", func(ctx context.Context) error {
		return management.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: names.Object(made.Name, names.EtcdData)}, &appsv1.StatefulSet{})
	})
	eventually(a.t, "the control plane is as it is stored", func(ctx context.Context) error {
		if err := a.client.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		if made.Spec.Hosting.Ports.First == 0 && !made.Spec.Hosting.OnPodNetwork() {
			return errors.New("it has no ports")
		}
		return nil
	})
	return made
}

// owned is the reference of what an object of Cluster API owns.
func owned(owner client.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind(kind))}
}

// ownKubeconfig reaches the management cluster with the rights of the attacker alone.
func (a *attacker) ownKubeconfig() string {
	a.t.Helper()
	user, err := management.cluster.AddUser(envtest.User{Name: a.namespace}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		a.t.Fatal(err)
	}
	return string(content)
}

// tenantKubeconfig reaches the tenant as its administrator, which the attacker is.
func (a *attacker) tenantKubeconfig() string {
	a.t.Helper()
	from := management.tenantConfig
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"a": {Server: from.Host, CertificateAuthorityData: from.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"a": {ClientCertificateData: from.CertData, ClientKeyData: from.KeyData}},
		Contexts:  map[string]*clientcmdapi.Context{"a": {Cluster: "a", AuthInfo: "a"}}, CurrentContext: "a",
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return string(content)
}
