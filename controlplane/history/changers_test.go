package history

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhoChangedAField(t *testing.T) {
	one, two := metav1.NewTime(noon.Add(-time.Hour)), metav1.NewTime(noon.Add(-time.Minute))
	entry := func(manager string, at *metav1.Time, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	ofStatus := entry("status", &two, `{"f:spec":{"f:version":{}}}`)
	ofStatus.Subresource = "status"
	entries := []metav1.ManagedFieldsEntry{
		entry("kubectl-edit", &two, `{"f:spec":{"f:version":{},"f:etcd":{"f:data":{"f:replicas":{}}},"f:hosting":{"f:nodeSelector":{"f:example.com/a":{}}},"f:patches":{}}}`),
		entry("argocd", &one, `{"f:spec":{".":{},"f:hosting":{".":{},"f:nodeSelector":{}},"f:imageRepository":{}}}`),
		entry("kok-control-plane-manager", &two, `{"f:spec":{"f:controlPlaneEndpoint":{".":{},"f:host":{}},"f:hosting":{"f:ports":{"f:first":{}}}}}`),
		entry("autoscaler", &two, `{"f:spec":{"f:replicas":{}}}`),
		entry("labels", &two, `{"f:metadata":{"f:labels":{"f:a":{}}}}`), entry("broken", &two, `{"f:spec":1`), {Manager: "empty"}, ofStatus,
	}
	for name, test := range map[string]struct {
		paths []string
		by    []string
		at    time.Time
	}{
		"a field of its own":                 {[]string{"/version"}, []string{"kubectl-edit"}, two.Time},
		"a field of a former writer":         {[]string{"/imageRepository"}, []string{"argocd"}, one.Time},
		"a list as a whole":                  {[]string{"/patches"}, []string{"kubectl-edit"}, two.Time},
		"a key of a map that another made":   {[]string{"/hosting/nodeSelector/example.com~1a"}, []string{"kubectl-edit"}, two.Time},
		"a key that was taken away":          {[]string{"/hosting/nodeSelector/example.com~1b"}, nil, time.Time{}},
		"a map as a whole":                   {[]string{"/hosting/nodeSelector"}, []string{"argocd", "kubectl-edit"}, two.Time},
		"a field above":                      {[]string{"/etcd"}, []string{"kubectl-edit"}, two.Time},
		"several":                            {[]string{"/version", "/imageRepository"}, []string{"argocd", "kubectl-edit"}, two.Time},
		"one that was taken away":            {[]string{"/metrics"}, nil, time.Time{}},
		"one below a map that others have":   {[]string{"/hosting/tolerations"}, nil, time.Time{}},
		"all of spec, but for the manager's": {[]string{""}, []string{"argocd", "kubectl-edit"}, two.Time},
	} {
		t.Run(name, func(t *testing.T) {
			by, at := changers(entries, test.paths)
			if !slices.Equal(by, test.by) || !at.Equal(test.at) {
				t.Errorf("got %v at %s, want %v at %s", by, at, test.by, test.at)
			}
		})
	}
}
