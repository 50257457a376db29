package shape

import (
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	t "github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
)

// Done is when a control plane had reached everything that its run waited for.
const Done t.Stage = "done"

// Rows are the stages of a creation in their usual order. A floor has only some of them.
func Rows() []t.Row {
	return []t.Row{
		t.Last("Cluster and KOKControlPlane accepted", t.Accepted, ""),
		t.Last("owner reference set by Cluster API", t.OwnerSet, ""),
		t.Last("host ports claimed", t.PortsClaimed, ""),
		t.Last("key material written", t.KeyMaterial, ""),
		t.Last("Services made (all)", t.Service, ""),
		t.Last("certificates written (all)", t.Certificates, ""),
		t.Last("etcd: workloads applied", t.Applied, Etcds...),
		t.Last("etcd: pods created (all)", t.Created, Etcds...),
		t.Last("etcd: pods scheduled (all)", t.Scheduled, Etcds...),
		t.Last("etcd: volumes bound (all)", t.VolumeBound, Etcds...),
		t.First("etcd: started (first)", t.Started, Etcds...),
		t.Last("etcd: started (all)", t.Started, Etcds...),
		t.Quorum("etcd: /readyz is 200 (quorum of both)", t.Answers, Etcds...),
		t.Last("etcd: /readyz is 200 (all)", t.Answers, Etcds...),
		t.Quorum("etcd: pods ready (quorum of both)", t.PodReady, Etcds...),
		t.Last("etcd: pods ready (all)", t.PodReady, Etcds...),
		t.Last("apiserver: workload applied", t.Applied, names.KubeAPIServer),
		t.Last("apiserver: pods scheduled (all)", t.Scheduled, names.KubeAPIServer),
		t.First("apiserver: started (first)", t.Started, names.KubeAPIServer),
		t.Last("apiserver: started (all)", t.Started, names.KubeAPIServer),
		t.First("apiserver: /readyz is 200 (first)", t.Answers, names.KubeAPIServer),
		t.First("apiserver: pods ready (first)", t.PodReady, names.KubeAPIServer),
		t.Last("apiserver: /readyz is 200 (all)", t.Answers, names.KubeAPIServer),
		t.Last("apiserver: pods ready (all)", t.PodReady, names.KubeAPIServer),
		t.Last("ConfigMap written through the endpoint", t.ConfigMapMade, ""),
		t.Last("others: workloads applied", t.Applied, Others...),
		t.Last("others: pods scheduled (all)", t.Scheduled, Others...),
		t.First("others: started (first)", t.Started, Others...),
		t.Last("others: started (all)", t.Started, Others...),
		t.Last("others: /healthz is 200 (all)", t.Answers, Others...),
		t.Last("others: pods ready (all)", t.PodReady, Others...),
		t.Last("leases held (both)", t.LeaseHeld, ""),
		t.Last("Initialized=True", t.Initialized, ""),
		t.Last("every replica ready, as workloads say", t.Complete, Components()...),
		t.Last("Available=True", t.Available, ""),
		t.Last("DONE", Done, ""),
	}
}

// Lanes are the parts of a creation for a picture. A floor has only the phases in which a process runs.
func Lanes() []t.Lane {
	lanes := []t.Lane{{Title: "preparation", Phases: []t.Phase{
		{Row: t.Last("", t.Accepted, "")}, {Name: "keys and certificates", Row: t.Last("", t.Certificates, "")},
	}}}
	for _, part := range []struct {
		title      string
		components []string
	}{{"etcd", Etcds}, {"kube-apiserver", []string{names.KubeAPIServer}}, {"others", Others}} {
		lanes = append(lanes, t.Lane{Title: part.title, Phases: []t.Phase{
			{Row: t.Last("", t.Applied, part.components...)},
			{Name: "pods scheduled", Row: t.Last("", t.Scheduled, part.components...)},
			{Name: "processes started", Row: t.Last("", t.Started, part.components...)},
			{Name: "processes answer", Row: t.Last("", t.Answers, part.components...)},
			{Name: "kubelet says ready", Row: t.Last("", t.PodReady, part.components...)},
		}})
	}
	return lanes
}
