package patches_test

import (
	"fmt"
	"strings"
	"testing"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/patches"
)

func TestFinding11APatchDoesNotRunPodsAsAnotherTenantsUser(t *testing.T) {
	const beside = `{"containers":[{"name":"beside","image":"a.example/a:v1","securityContext":{%q:%d}}]}`
	for name, test := range map[string]struct {
		pod     string
		refused bool
	}{
		"a user below those of tenants":                    {fmt.Sprintf(beside, "runAsUser", names.FirstUser-1), false},
		"the first user of tenants":                        {fmt.Sprintf(beside, "runAsUser", names.FirstUser), true},
		"the last user of tenants":                         {fmt.Sprintf(beside, "runAsUser", names.FirstHashedUser+names.HashedUsers-1), true},
		"a user above those of tenants":                    {fmt.Sprintf(beside, "runAsUser", names.FirstHashedUser+names.HashedUsers), false},
		"a group of a tenant":                              {fmt.Sprintf(beside, "runAsGroup", names.FirstHashedUser), true},
		"the component as the user of a tenant":            {fmt.Sprintf(`{"containers":[{"name":"kube-scheduler","securityContext":{"runAsUser":%d}}]}`, names.FirstUser), true},
		"a further group of a tenant":                      {fmt.Sprintf(`{"securityContext":{"supplementalGroups":[%d]}}`, names.FirstUser), true},
		"a further group that is no tenant's":              {`{"securityContext":{"supplementalGroups":[2000]}}`, false},
		"a container that says nothing of whom it runs as": {`{"containers":[{"name":"beside","image":"a.example/a:v1"}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			patch := controlplanev1.Patch{
				Target: controlplanev1.PatchTarget{Component: names.KubeScheduler, Kind: "Deployment"},
				Type:   controlplanev1.PatchStrategicMerge, Patch: `{"spec":{"template":{"spec":` + test.pod + `}}}`,
			}
			_, err := patches.Apply(target(names.KubeScheduler), render(t, names.KubeScheduler), []controlplanev1.Patch{patch}, nil)
			if refused := err != nil && strings.Contains(err.Error(), "are those of tenants; remove it"); refused != test.refused || !test.refused && err != nil {
				t.Errorf("refused: %t, %v", refused, err)
			}
		})
	}
}
