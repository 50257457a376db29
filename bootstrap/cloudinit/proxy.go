package cloudinit

import (
	"fmt"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const containerdDropIn = onworker.UnitDir + onworker.ContainerdUnit + ".d/90-kok-proxy.conf"

// addProxy writes the proxies into an environment file, for containerd and the steps of the bootstrap.
func addProxy(d *document, in *Input) error {
	spec := in.Spec.Proxy
	if spec.HTTP == "" && spec.HTTPS == "" {
		return nil
	}
	direct := []string{"localhost", "127.0.0.1", "::1", ".svc", "." + in.Cluster.DNSDomain}
	for _, list := range [][]string{in.Cluster.ServiceCIDRs, in.Cluster.PodCIDRs, spec.No} {
		direct = append(direct, list...)
	}
	content := strings.Builder{}
	for _, variable := range []struct{ name, field, value string }{
		{"HTTP_PROXY", "proxy.http", spec.HTTP},
		{"HTTPS_PROXY", "proxy.https", spec.HTTPS},
		{"NO_PROXY", "proxy.no", strings.Join(direct, ",")},
	} {
		if variable.value == "" {
			continue
		}
		if err := checkWord(variable.value); err != nil {
			return invalid(variable.field, variable.value, err)
		}
		// Some programs read the name in upper case, others that in lower case.
		fmt.Fprintf(&content, "%s=\"%s\"\n%s=\"%s\"\n", variable.name, variable.value, strings.ToLower(variable.name), variable.value)
	}
	d.WriteFiles = append(d.WriteFiles,
		ownFile(onworker.ProxyFile, "0600", []byte(content.String())),
		ownFile(containerdDropIn, "0644", []byte("[Service]\nEnvironmentFile="+onworker.ProxyFile+"\n")))
	return nil
}
