package scrape

import (
	"encoding/json"
	"reflect"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func TestFiles(t *testing.T) {
	files, err := Files(client.ObjectKey{Namespace: "team", Name: "blue"}, []Component{
		{Name: "kube-apiserver", ServerName: "kubernetes.default.svc", Targets: []Target{{"192.0.2.1:20000", "n1"}, {"192.0.2.2:20000", "n2"}}},
		{Name: "kube-scheduler", ServerName: "kube-scheduler"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Jobs []struct {
			Name string    `json:"job_name"`
			TLS  tlsConfig `json:"tls_config"`
			SD   []struct {
				Files []string `json:"files"`
			} `json:"file_sd_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(files[ConfigFile], &config); err != nil {
		t.Fatal(err)
	}
	if len(config.Jobs) != 2 || config.Jobs[0].Name != "team/blue/kube-apiserver" || config.Jobs[1].TLS.ServerName != "kube-scheduler" {
		t.Fatalf("the jobs are %+v", config.Jobs)
	}
	want := map[string][]targetGroup{
		"kube-apiserver": {
			{Targets: []string{"192.0.2.1:20000"}, Labels: map[string]string{"cluster_namespace": "team", "cluster_name": "blue", "node": "n1"}},
			{Targets: []string{"192.0.2.2:20000"}, Labels: map[string]string{"cluster_namespace": "team", "cluster_name": "blue", "node": "n2"}},
		},
		"kube-scheduler": {},
	}
	for i, name := range []string{"kube-apiserver", "kube-scheduler"} {
		var groups []targetGroup
		if err := json.Unmarshal(files[config.Jobs[i].SD[0].Files[0]], &groups); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(groups, want[name]) {
			t.Errorf("%s has %+v, want %+v", name, groups, want[name])
		}
	}
}
