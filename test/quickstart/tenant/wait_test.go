package tenant

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMissing(t *testing.T) {
	names := []string{"First", "Second"}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       string
	}{
		"all true": {
			[]metav1.Condition{{Type: "First", Status: "True"}, {Type: "Second", Status: "True"}}, "",
		},
		"one was never set": {
			[]metav1.Condition{{Type: "First", Status: "True"}}, "Kind has no condition Second yet",
		},
		"the first that is not true is told, with its first problem": {
			[]metav1.Condition{{Type: "First", Status: "Unknown", Message: "* etcd:\n  * no quorum"}, {Type: "Second", Status: "False"}},
			"Kind First=Unknown: no quorum",
		},
		"more problems are counted": {
			[]metav1.Condition{{Type: "First", Status: "False", Message: "pod a starts; pod b starts; pod c starts"}},
			"Kind First=False: pod a starts (and 2 more)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missing("Kind", names, test.conditions); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
