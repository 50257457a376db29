package discovery

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/backends"
)

const sliceSeed = `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"kubernetes"},"addressType":"IPv4",` +
	`"endpoints":[{"addresses":["10.0.0.1","10.0.0.1"],"conditions":{"ready":true}},{"addresses":["10.0.0.2"],"conditions":{"ready":false}}],"ports":[{"name":"https","port":6443}]}`

// FuzzEndpointSlices: whatever a tenant's API server answers, its backends are a bounded number of addresses that can be
// dialled, each once, and none is the load balancer itself.
func FuzzEndpointSlices(f *testing.F) {
	scheme := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(scheme); err != nil {
		f.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	decoder := codecs.UniversalDeserializer()
	for _, seed := range []string{
		sliceSeed, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice"}`, `{}`, ``,
		strings.ReplaceAll(sliceSeed, "10.0.0.2", "fd00::2%eth0"), strings.ReplaceAll(sliceSeed, "6443", "-1"), strings.ReplaceAll(sliceSeed, "6443", "70000"),
		strings.ReplaceAll(sliceSeed, "10.0.0.1", "127.0.0.1"), strings.ReplaceAll(sliceSeed, "10.0.0.1", "::ffff:127.0.0.1"), strings.ReplaceAll(sliceSeed, "10.0.0.1", "a:b"),
		strings.Replace(sliceSeed, `"10.0.0.1","10.0.0.1"`, `"10.0.1.1`+many(`","10.0.1.`, 200)+`"`, 1),
	} {
		f.Add([]byte(seed))
	}
	own := netip.MustParseAddrPort("127.0.0.1:6443")
	f.Fuzz(func(t *testing.T, data []byte) {
		object, _, err := decoder.Decode(data, nil, nil)
		slice, ok := object.(*discoveryv1.EndpointSlice)
		if err != nil || !ok {
			return
		}
		set, err := backends.NewSet([]string{"10.9.9.9:6443"}, nil, []netip.AddrPort{own})
		if err != nil {
			t.Fatal(err)
		}
		err = set.Confirm(Addresses(slice))
		all := set.All()
		if err == nil != set.Confirmed() || len(all) > mostServers+1 {
			t.Errorf("confirmed %t by %v, with %d backends", set.Confirmed(), err, len(all))
		}
		for i, b := range all {
			address, err := netip.ParseAddrPort(b.Address)
			if err != nil || address.Port() == 0 || address.Addr().Unmap() == own.Addr() && address.Port() == own.Port() || i > 0 && all[i-1].Address == b.Address {
				t.Errorf("%q is a backend: %v", b.Address, err)
			}
		}
	})
}

// many are texts with numbers behind them.
func many(text string, count int) string {
	all := &strings.Builder{}
	for i := range count {
		all.WriteString(text + strconv.Itoa(i))
	}
	return all.String()
}

// FuzzKeptLists: what is read from the disk is the same when it is kept again, and has a host and a port each.
func FuzzKeptLists(f *testing.F) {
	for _, seed := range []string{`{"backends":["10.0.0.1:6443","[fd00::1]:6443"]}`, `{"backends":[]}`, `{}`, ``, `null`, `{"backends":[":"]}`, `{"backends":["a:b"]}`, `{"backends":["a"]}`, `{"backends":["\ud800:1"]}`, `[]`, "{\"backends\":[\"\xff:1\"]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "backends.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := Load(path)
		if err != nil {
			return
		}
		if len(read) > mostServers {
			t.Errorf("%d addresses", len(read))
		}
		if slices.Contains(read, "") {
			t.Error("an address is empty")
		}
		// The directory would be synced for nothing.
		kept := encode(read)
		if err := os.WriteFile(path, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := Load(path)
		if diff := cmp.Diff(read, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("kept again it is another: %v\n%s", err, diff)
		}
	})
}
