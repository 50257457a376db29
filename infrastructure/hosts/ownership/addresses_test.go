package ownership

import (
	"fmt"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

func TestTheAddressesOfAHostAreItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*hosttest.Simulated)
		want string
	}{
		"of a node, without those of its pods and Services": {func(s *hosttest.Simulated) {
			s.Answers["ip -json address show scope global"] = ssh.Result{Stdout: []byte(hosttest.NodeAddresses)}
		}, "[192.0.2.7 198.51.100.7 198.51.100.8 198.51.100.9 2001:db8::7]"},
		"of a host that has none":         {func(*hosttest.Simulated) {}, "[]"},
		"are not asked of one without ip": {func(s *hosttest.Simulated) { s.Remove("/usr/bin/ip") }, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := hosttest.New(t)
			test.edit(s)
			h := hosts.New(s, "admin")
			programs, err := h.Programs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			usage, err := Observe(t.Context(), h, programs)
			if err != nil || fmt.Sprint(usage.Addresses) != test.want {
				t.Errorf("%+v, %v", usage, err)
			}
		})
	}
}
