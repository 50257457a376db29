//go:build envtest

package controllers

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// hashes are of what no two tenants share, as times are.
var hashes = regexp.MustCompile(`("kok\.cluster\.x-k8s\.io/rendering"|"inputs"|"hash"|"specHash"|"at"): "[^"]*"`)

// user is whom the pods of the tenant run as. On the pod network it goes by the name of the Cluster.
func (tt *tenantTest) user() string {
	spec := tt.controlPlane().Spec
	in := components.Input{Cluster: tt.cluster, Spec: spec, Ports: ports.Of(spec.Hosting.Ports.First)}
	return strconv.FormatInt(in.OwnUser(), 10)
}

// inWordsOfAll is what all objects say that the controller made, stored renderings included, in words that two
// tenants of the same spec share: without keys and hashes, and with the names of namespace, addresses, ports and user.
func (tt *tenantTest) inWordsOfAll() map[string]string {
	tt.t.Helper()
	generated := tt.generated()
	named := map[string]string{tt.key.Namespace: "the namespace", tt.host.balanced: "the load balancer"}
	for i := range int32(controlplanev1.PortBlockSize) {
		named[strconv.Itoa(int(tt.controlPlane().Spec.Hosting.Ports.First+i))] = fmt.Sprintf("port %d", i)
	}
	named[tt.user()] = "the user"
	for name, object := range generated {
		if service, ok := object.(*corev1.Service); ok {
			named[service.Spec.ClusterIP] = "the address of " + name
		}
	}
	delete(named, corev1.ClusterIPNone)
	quoted := make([]string, 0, len(named))
	for _, own := range slices.Sorted(maps.Keys(named)) {
		quoted = append(quoted, regexp.QuoteMeta(own))
	}
	owned := regexp.MustCompile(`\b(` + strings.Join(quoted, "|") + `)\b`)

	all := map[string]string{}
	for name, object := range generated {
		if secret, ok := object.(*corev1.Secret); ok {
			for key := range secret.Data {
				secret.Data[key] = nil
			}
		}
		raw, err := json.MarshalIndent(content(tt.t, object), "", " ")
		if err != nil {
			tt.t.Fatal(err)
		}
		text := hashes.ReplaceAllString(string(raw), "$1: a hash")
		all[name] = owned.ReplaceAllStringFunc(text, func(own string) string { return named[own] })
	}
	return all
}
