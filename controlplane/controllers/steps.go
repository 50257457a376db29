package controllers

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubecontrollermanager"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubescheduler"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// Steps of a reconcile besides the components, which are steps of their own names.
const (
	stepKeyMaterial   = "key-material"
	stepVersion       = "version"
	stepPorts         = "ports"
	stepEndpoint      = "endpoint"
	stepCertificates  = "certificates"
	stepKubeconfig    = "kubeconfig"
	stepLoadBalancer  = "load-balancer"
	stepTenantObjects = "tenant-objects"
	stepAddons        = "addons"
)

// graph is the order in which a control plane is made. What does not depend on each other runs
// together. While one waits or fails, those after it adopt nothing new, and keep up what is stored of them.
func (r *Reconciler) graph() *flow.Graph[*scope] {
	return flow.New(observeStep,
		flow.Step[*scope]{Name: stepKeyMaterial, Run: r.ensureKeyMaterial},
		// Key material tells whether anything was ever made in a host cluster: it is made before all else.
		flow.Step[*scope]{Name: stepVersion, After: []string{stepKeyMaterial}, Run: r.chooseVersion},
		flow.Step[*scope]{Name: stepPorts, After: []string{stepVersion}, Run: r.claimPorts, Keep: keepHosted(r.claimPorts)},
		flow.Step[*scope]{Name: stepEndpoint, After: []string{stepPorts}, Run: r.applyServices, Keep: r.keepServices},
		flow.Step[*scope]{Name: stepCertificates, After: []string{stepKeyMaterial, stepEndpoint}, Run: r.ensureCertificates},
		flow.Step[*scope]{Name: stepKubeconfig, After: []string{stepKeyMaterial, stepEndpoint}, Run: r.ensureKubeconfig},
		flow.Step[*scope]{Name: names.EtcdData, After: []string{stepCertificates}, Run: r.applyEtcd(etcd.Data), Keep: r.keepEtcd(etcd.Data)},
		flow.Step[*scope]{Name: names.EtcdEvents, After: []string{stepCertificates}, Run: r.applyEtcd(etcd.Events), Keep: r.keepEtcd(etcd.Events)},
		flow.Step[*scope]{Name: names.KubeAPIServer, After: []string{names.EtcdData, names.EtcdEvents}, Run: applyComponent(kubeapiserver.Component), Keep: keepComponent(kubeapiserver.Component)},
		flow.Step[*scope]{Name: names.KubeControllerManager, After: []string{names.KubeAPIServer}, Run: applyComponent(kubecontrollermanager.Component), Keep: keepComponent(kubecontrollermanager.Component)},
		flow.Step[*scope]{Name: names.KubeScheduler, After: []string{names.KubeAPIServer}, Run: applyComponent(kubescheduler.Component), Keep: keepComponent(kubescheduler.Component)},
		flow.Step[*scope]{Name: stepLoadBalancer, After: []string{names.KubeAPIServer}, Run: r.ensureLoadBalancer, Keep: r.keepLoadBalancer},
		flow.Step[*scope]{Name: stepTenantObjects, After: []string{names.KubeAPIServer, stepKubeconfig}, Run: r.applyTenantObjects},
		flow.Step[*scope]{Name: stepAddons, After: []string{stepTenantObjects}, Run: r.applyAddons},
	)
}
