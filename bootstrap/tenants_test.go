package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

func TestEachWriteToATenantIsALineOfTheLog(t *testing.T) {
	blue := client.ObjectKey{Namespace: "team", Name: "blue"}
	tenants := loggedTenants{clustercache.NewFakeClusterCache(fake.NewClientBuilder().Build(), blue)}
	for name, get := range map[string]func(context.Context, client.ObjectKey) (client.Client, error){
		"cached": tenants.GetClient, "live": tenants.GetUncachedClient,
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: writes.Verbosity}))
			tenant, err := get(ctx, blue)
			if err != nil {
				t.Fatal(err)
			}
			if err := tenant.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}); err != nil {
				t.Fatal(err)
			}
			if len(lines) != 1 || !strings.Contains(lines[0], `"Wrote"`) || !strings.Contains(lines[0], `"cluster"="tenant"`) || !strings.Contains(lines[0], `"kind"="Secret"`) {
				t.Errorf("a creation is logged as %v", lines)
			}
			if _, err := get(ctx, client.ObjectKey{Namespace: "team", Name: "green"}); !errors.Is(err, clustercache.ErrClusterNotConnected) {
				t.Errorf("without a connection it fails with %v", err)
			}
		})
	}
}
