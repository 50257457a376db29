package rebuild

import (
	"fmt"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"
)

func TestTheIDOfAClusterIsTheOneThatEtcdGivesIt(t *testing.T) {
	for _, test := range []struct{ peerURL, token string }{
		{"https://10.96.1.2:20002", "2026-03-04T05:06:07Z"},
		{"https://[fd00::1]:2380", "2026-03-04T05:06:08Z"},
	} {
		urls, err := types.NewURLsMap("blue-etcd-data-2=" + test.peerURL)
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := membership.NewClusterFromURLsMap(zap.NewNop(), test.token, urls)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := ClusterID(test.peerURL, test.token), fmt.Sprintf("%016x", uint64(cluster.ID())); got != want {
			t.Errorf("%+v: got %s, want %s", test, got, want)
		}
	}
}
