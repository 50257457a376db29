package clusters

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestTheNetworkOfARunningTenantStays(t *testing.T) {
	cluster := func(initialized bool, services, pods, domain string) *clusterv1.Cluster {
		c := &clusterv1.Cluster{}
		c.Status.Initialization.ControlPlaneInitialized = ptr.To(initialized)
		c.Spec.ClusterNetwork.ServiceDomain = domain
		if services != "" {
			c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{services}
		}
		if pods != "" {
			c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{pods}
		}
		return c
	}
	running := cluster(true, "10.96.0.0/12", "10.244.0.0/16", "cluster.local")
	otherPort := running.DeepCopy()
	otherPort.Spec.ClusterNetwork.APIServerPort = 7443
	for name, test := range map[string]struct {
		before, after *clusterv1.Cluster
		want          []string
	}{
		"before it runs":              {cluster(false, "10.96.0.0/12", "", ""), cluster(false, "10.97.0.0/16", "10.1.0.0/16", "example.org"), nil},
		"nothing":                     {running, running.DeepCopy(), nil},
		"defaults are spelled out":    {cluster(true, "", "10.244.0.0/16", ""), running, nil},
		"another range of Services":   {running, cluster(true, "10.97.0.0/16", "10.244.0.0/16", ""), []string{`spec.clusterNetwork.services.cidrBlocks: Invalid value: ["10.97.0.0/16"]: cannot be changed once the control plane is initialized, Services have addresses of it; go back to "10.96.0.0/12", or create a new Cluster`}},
		"the range of Services taken": {cluster(true, "10.97.0.0/16", "10.244.0.0/16", ""), cluster(true, "", "10.244.0.0/16", ""), []string{`go back to "10.97.0.0/16"`}},
		"another range of pods":       {running, cluster(true, "", "10.245.0.0/16", ""), []string{`spec.clusterNetwork.pods.cidrBlocks: Invalid value: ["10.245.0.0/16"]: cannot be changed once the control plane is initialized, nodes have parts of it; go back to "10.244.0.0/16", or create a new Cluster`}},
		"pods where there were none":  {cluster(true, "", "", ""), cluster(true, "", "10.244.0.0/16", ""), []string{`nodes have parts of it; leave it out, or create a new Cluster`}},
		"another port":                {running, otherPort, []string{`spec.clusterNetwork.apiServerPort: Invalid value: 7443: cannot be changed once the control plane is initialized, kubeconfigs name it; go back to "6443", or create a new Cluster`}},
		"another domain":              {running, cluster(true, "", "10.244.0.0/16", "example.org"), []string{`spec.clusterNetwork.serviceDomain: Invalid value: "example.org": cannot be changed once the control plane is initialized, service account tokens name it as their issuer; go back to "cluster.local", or create a new Cluster`}},
	} {
		errs := ValidateChange(test.before, test.after)
		if len(errs) != len(test.want) {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		for i := range errs {
			if !strings.HasSuffix(errs[i].Error(), test.want[i]) && !strings.Contains(errs[i].Error(), test.want[i]) {
				t.Errorf("%s: %v", name, errs[i])
			}
		}
	}
}

func TestTheDomainIsAName(t *testing.T) {
	for domain, ok := range map[string]bool{"": true, "cluster.local": true, "example": true, "a b,https://x": false, "Upper.case": false, "under_score": false} {
		c := &clusterv1.Cluster{}
		c.Spec.ClusterNetwork.ServiceDomain = domain
		if errs := ValidateClusterNetwork(c); (len(errs) == 0) != ok {
			t.Errorf("%q: %v", domain, errs)
		}
	}
}
