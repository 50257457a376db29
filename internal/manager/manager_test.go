package manager

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	o := &Options{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestContractFlags are those that Cluster API's provider contracts name.
func TestContractFlags(t *testing.T) {
	o := parse(t, "--namespace=team", "--watch-filter=a", "--leader-elect", "--sync-period=5m")
	if o.WatchNamespace != "team" || o.WatchFilter != "a" || !o.leaderElection {
		t.Errorf("%+v", o)
	}
	byObject := map[client.Object]cache.ByObject{&corev1.Secret{}: {}}
	options := o.cacheOptions(byObject)
	if _, only := options.DefaultNamespaces["team"]; !only || len(options.DefaultNamespaces) != 1 || *options.SyncPeriod != 5*time.Minute || len(options.ByObject) != 1 {
		t.Errorf("%+v", options)
	}
	if all := parse(t).cacheOptions(nil); all.DefaultNamespaces != nil {
		t.Errorf("without --namespace the cache holds %v alone", all.DefaultNamespaces)
	}
}
