package tenant

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// showEtcd asks both etcd clusters for their members, with kube-apiserver's own certificate, and prints
// them.
func (t *Tenant) showEtcd(ctx context.Context) error {
	config, err := t.etcdTLS(ctx)
	if err != nil {
		return err
	}
	t.Log.Title("etcd members, as etcd tells them")
	table := tabwriter.NewWriter(t.Log, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tMEMBER\tROLE\tDATABASE")
	var problems []string
	for _, component := range []string{names.EtcdData, names.EtcdEvents} {
		health, err := t.etcdHealth(ctx, component, config)
		if err != nil {
			return err
		}
		for _, member := range health.Members {
			role := "follower"
			switch {
			case member.Err != nil:
				role = "unreachable"
			case member.Leader:
				role = "leader"
			case member.Learner:
				role = "learner"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d KiB\n", component, member.Name, role, member.DatabaseSize>>10)
		}
		for _, problem := range health.Problems() {
			problems = append(problems, component+": "+problem)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}

func (t *Tenant) etcdHealth(ctx context.Context, component string, config *tls.Config) (*etcd.Health, error) {
	pods, err := t.pods(ctx, component)
	if err != nil {
		return nil, err
	}
	members := map[string]etcd.Address{}
	for _, pod := range pods {
		service := &corev1.Service{}
		if err := t.Client.Get(ctx, client.ObjectKeyFromObject(&pod), service); err != nil {
			return nil, fmt.Errorf("get the Service of etcd member %s: %w", pod.Name, err)
		}
		port := containerPort(&pod, "client")
		address, err := t.reach.address(ctx, net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(port)), config, &pod, port)
		if err != nil {
			return nil, err
		}
		members[pod.Name] = etcd.Address{Client: "https://" + address}
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("no pods of %s", component)
	}
	return etcd.Check(ctx, members, config)
}

// etcdTLS is what kube-apiserver dials etcd with: rotations of CAs give their files other names.
func (t *Tenant) etcdTLS(ctx context.Context) (*tls.Config, error) {
	servers, err := t.pods(ctx, names.KubeAPIServer)
	if err != nil {
		return nil, err
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("no pods of %s", names.KubeAPIServer)
	}
	certs := &corev1.Secret{}
	key := client.ObjectKey{Namespace: t.Key.Namespace, Name: names.Certs(t.Key.Name, names.KubeAPIServer)}
	if err := t.Client.Get(ctx, key, certs); err != nil {
		return nil, fmt.Errorf("get kube-apiserver's certificates, Secret %s: %w", key, err)
	}
	named := func(argument string) []byte {
		for _, arg := range servers[0].Spec.Containers[0].Args {
			if file, found := strings.CutPrefix(arg, "--"+argument+"="); found {
				return certs.Data[path.Base(file)]
			}
		}
		return nil
	}
	certificate, err := tls.X509KeyPair(named("etcd-certfile"), named("etcd-keyfile"))
	if err != nil {
		return nil, fmt.Errorf("read the etcd client certificate in Secret %s: %w", key, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(named("etcd-cafile")) {
		return nil, fmt.Errorf("read the CAs of etcd: Secret %s has none that API servers name", key)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{certificate}}, nil
}
