//go:build e2e

package capi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/workers"
)

const (
	// deletion bounds the deletion of all that a spec made.
	deletion = 8 * time.Minute
	// hostsOfASpec is how many workers a spec finds: the most are three, and one more waits for its host's clean-up.
	hostsOfASpec = 3
)

// giveHosts makes the lab's workers known in the namespace that a spec just made.
func (e *environment) giveHosts(_ framework.ClusterProxy, namespace string) {
	e.namespaces = append(e.namespaces, namespace)
	ctx, cancel := context.WithTimeout(background, 5*time.Minute)
	defer cancel()
	pool := &workers.Pool{
		Lab: e.Lab, Client: e.Client, Namespace: namespace, Log: e.Log,
		Programs: []string{filepath.Join(settings.programs, "kok-apiserver-lb")},
	}
	_, err := pool.Ensure(ctx, hostsOfASpec)
	Expect(err).NotTo(HaveOccurred(), "workers for namespace %s", namespace)
}

// takeHostsBack waits until the namespace of a spec that passed is gone, and looks at the lab's workers: whatever the
// spec did to them, nothing of a node is left for the next one to find.
func (e *environment) takeHostsBack(ctx context.Context) {
	GinkgoHelper()
	if CurrentSpecReport().Failed() || len(e.namespaces) == 0 {
		return
	}
	e.waitNamespace(ctx, e.namespaces[len(e.namespaces)-1])
	added, err := e.AddedWorkers()
	Expect(err).NotTo(HaveOccurred())
	for _, h := range added {
		Expect(left(ctx, h)).To(Equal("/etc/hostname\n"), "files of a node on %s after its Machine and its IDCHost went", h.Name)
	}
}

// left lists the files in folders of a node; those of a clean host have none but that of its own name.
func left(ctx context.Context, h *host.Host) string {
	// find ends with an error for each path that is not there.
	files, _ := h.Exec(ctx, nil, "find", "/etc/hostname", "/etc/kubernetes", "/var/lib/kubelet", "/etc/cni/net.d", "/etc/kok",
		"/etc/kok-apiserver-lb", "/var/lib/kok-infrastructure", "/var/lib/cloud/seed/nocloud", "-not", "-type", "d")
	return string(files)
}

// waitNamespace waits until a namespace is gone, and says what is left in it.
func (e *environment) waitNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		namespace := &corev1.Namespace{}
		if err := e.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
			return client.IgnoreNotFound(err)
		}
		var why []error
		for _, condition := range namespace.Status.Conditions {
			if condition.Status == corev1.ConditionTrue {
				why = append(why, errors.New(condition.Message))
			}
		}
		return fmt.Errorf("namespace %s is still there: %w", name, errors.Join(why...))
	}).WithTimeout(deletion).Should(Succeed())
}

// removeNamespaces removes what specs left that could not clean up after themselves.
func (e *environment) removeNamespaces(ctx SpecContext) {
	var failed []error
	for _, name := range e.namespaces {
		failed = append(failed, e.removeNamespace(ctx, name))
	}
	Expect(errors.Join(failed...)).NotTo(HaveOccurred(), "what specs leave in the host cluster")
}

// removeHosts removes the workers that were added for specs.
func (e *environment) removeHosts(ctx SpecContext) {
	Expect(e.RemoveAddedWorkers(ctx)).To(Succeed(), "workers that specs leave in the lab")
}

// removeNamespace deletes the Clusters of a namespace, waits until they are gone, and deletes it.
func (e *environment) removeNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := e.Client.DeleteAllOf(ctx, &clusterv1.Cluster{}, client.InNamespace(name)); err != nil {
		return fmt.Errorf("delete the Clusters of namespace %s: %w", name, err)
	}
	gone := func() (int, error) {
		clusters := &clusterv1.ClusterList{}
		err := e.Client.List(ctx, clusters, client.InNamespace(name))
		return len(clusters.Items), err
	}
	waited := InterceptGomegaFailure(func() {
		Eventually(ctx, gone).WithTimeout(deletion).Should(BeZero(), "Clusters of namespace %s are not deleted", name)
	})
	err := e.Client.Delete(ctx, namespace)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil
	}
	return errors.Join(waited, err)
}
