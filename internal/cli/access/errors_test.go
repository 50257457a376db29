package access

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, namespace: team}}]
clusters: [{name: c, cluster: {server: "https://api.example.com:6443"}}]
`

func TestEveryErrorSaysTheWayOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	cluster := New("kok", genericiooptions.NewTestIOStreamsDiscard())
	hosts := schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "idchosts"}
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"the providers are not there": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: hosts.Group, Kind: "IDCHost"}, SearchedVersions: []string{"v1alpha1"}},
			[]string{"https://api.example.com:6443 has none of the providers' kinds", "clusterctl init"}},
		"not logged in":      {apierrors.NewUnauthorized("Unauthorized"), []string{"does not know you", "log in again"}},
		"not allowed":        {apierrors.NewForbidden(hosts, "seven", errors.New("no role")), []string{"does not let you", "idchosts", "ask its administrator"}},
		"nobody answers":     {&url.Error{Op: "Get", URL: "https://api.example.com", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, []string{"does not answer", "refused", "--context"}},
		"answers too slowly": {context.DeadlineExceeded, []string{"does not answer"}},
		"others stay":        {errors.New("as it is"), []string{"as it is"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := cluster.Explain(fmt.Errorf("read it: %w", test.err))
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
			if !errors.Is(err, test.err) {
				t.Error("the cause is lost")
			}
			if again := cluster.Explain(err); again.Error() != err.Error() {
				t.Errorf("explained twice: %v", again)
			}
		})
	}
	_, missing := os.ReadFile(filepath.Join(t.TempDir(), "key"))
	if err := cluster.Explain(missing); !errors.Is(err, fs.ErrNotExist) || err.Error() != missing.Error() {
		t.Errorf("a file that is not there is explained by the network: %v", err)
	}
	if err := cluster.Explain(nil); err != nil {
		t.Error(err)
	}
	if namespace, given, err := cluster.Namespace(); namespace != "team" || given || err != nil {
		t.Errorf("namespace %s, given %t, %v", namespace, given, err)
	}
}
