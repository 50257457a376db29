// Package kubeconfigs has the command kok kubeconfig: an administrator's kubeconfig of a tenant for a machine that runs
// kok-apiserver-lb.
//
// servers finds the tenant's API servers, local makes the kubeconfig from them, and folder keeps it.
package kubeconfigs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/apiserverlb/unit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
)

const long = `Write an administrator's kubeconfig of a cluster for this machine, whose kok-apiserver-lb keeps it working while host nodes fail.

The kubeconfig goes to ~/.kube/kok/CLUSTER.kubeconfig, which only you can read: it holds an administrator's key. Its server is a
port of this machine, each cluster's another one; behind it are all API servers of the cluster. They are found in the
management cluster. For a control plane in another host cluster, name one or more by --api-server.

The same command again brings the key and the API servers up to date, and keeps the port.

With --for the kubeconfig has another key, whose certificate ends after that time, and the rights that RBAC of the cluster gives to the
groups of --group. Give such a one to people, and keep the administrator's: its certificate lives a year, and Kubernetes cannot revoke
it. What a group may do can be taken away at any time.

--output replaces a file only if an earlier --output wrote it for the same cluster.`

const example = `  # Two commands, and kubectl works
  kok kubeconfig blue
  systemctl --user enable --now kok-apiserver-lb@blue

  # For a colleague and a working day, with what RBAC gives to a group
  kok kubeconfig blue --for 8h --group operators --output blue.kubeconfig

  # API servers in another host cluster, and a name of its own beside another cluster blue
  kok kubeconfig blue --namespace site-b --name blue-b --api-server 192.0.2.11:20000 --api-server 192.0.2.12:20000`

// writer is one run of the command.
type writer struct {
	cluster *access.Cluster

	name    string
	port    uint16
	servers []string
	wish    wish
}

// New is the command kubeconfig.
func New(cluster *access.Cluster) *cobra.Command {
	w := &writer{cluster: cluster}
	command := &cobra.Command{
		Use: "kubeconfig CLUSTER", Short: "Write a kubeconfig of a cluster that works while host nodes fail", Long: long, Example: example,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cluster.CompleteOne(&clusterv1.ClusterList{}, true),
		RunE: func(command *cobra.Command, args []string) error {
			return cluster.Explain(w.run(command.Context(), args[0]))
		},
	}
	flags := command.Flags()
	flags.StringVar(&w.name, "name", "", "Name of the kubeconfig, and of the unit's instance; CLUSTER if empty.")
	flags.Uint16Var(&w.port, "port", 0, "Port of this machine for kubectl; the next port serves the load balancer's status. 0 keeps the ports of an existing kubeconfig, or takes two free ones.")
	flags.StringArrayVar(&w.servers, "api-server", nil, "Address and port of an API server that this machine reaches, for example 192.0.2.11:20000; repeat it for each. They are found if there is none.")
	flags.DurationVar(&w.wish.lives, "for", 0, "How long the kubeconfig is good for, for example 8h: it has a certificate of its own. The administrator's if 0.")
	flags.StringVarP(&w.wish.file, "output", "o", "", "File for a short-lived kubeconfig (--for) that leads to the cluster's endpoint and works on any machine; - for standard output.")
	flags.StringArrayVar(&w.wish.groups, "group", nil, "Group whose rights a kubeconfig of --for has; repeat it for each.")
	return command
}

func (w *writer) run(ctx context.Context, name string) error {
	if err := w.wish.check(); err != nil {
		return err
	}
	if w.name == "" {
		w.name = name
	}
	if problems := validation.IsDNS1123Subdomain(w.name); len(problems) > 0 {
		return fmt.Errorf("--name %s: %s; choose a name like that of a cluster", w.name, problems[0])
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("find your home: %w", err)
	}
	namespace, _, err := w.cluster.Namespace()
	if err != nil {
		return err
	}
	reader, err := w.cluster.Client()
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	stored, err := read(ctx, reader, key)
	if err != nil {
		return err
	}
	servers := w.servers
	if len(servers) == 0 {
		if servers, err = serversOf(ctx, reader, key); err != nil {
			return err
		}
	}
	if w.wish.file != "" {
		if err := replaceable(w.wish.file, stored, servers); err != nil {
			return err
		}
		return w.handOver(ctx, key, stored, servers)
	}
	f := folder(filepath.Join(home, unit.AdminDir))
	port, err := f.port(w.name, stored, servers, w.port)
	if err != nil {
		return err
	}
	made, err := local(stored, port, servers)
	if err != nil {
		return fmt.Errorf("kubeconfig of cluster %s: %w", key, err)
	}
	ends := ""
	if w.wish.lives != 0 {
		if ends, err = w.wish.shortLived(ctx, stored, made, servers); err != nil {
			return fmt.Errorf("a short-lived kubeconfig of cluster %s: %w", key, err)
		}
	}
	if err := f.write(w.name, made); err != nil {
		return err
	}
	return w.tell(f.file(w.name), serversIn(made), ends)
}

// handOver writes a short-lived kubeconfig that leads to the cluster's endpoint, for any machine.
func (w *writer) handOver(ctx context.Context, key client.ObjectKey, stored *clientcmdapi.Config, servers []string) error {
	made := stored.DeepCopy()
	ends, err := w.wish.shortLived(ctx, stored, made, servers)
	if err != nil {
		return fmt.Errorf("a short-lived kubeconfig of cluster %s: %w", key, err)
	}
	if w.wish.file == "-" {
		content, err := clientcmd.Write(*made)
		if err != nil {
			return err
		}
		_, err = w.cluster.Out.Write(content)
		return err
	}
	if err := writeFile(w.wish.file, made); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.cluster.Out, "%s is written.%s\n", w.wish.file, ends)
	return err
}

// read reads the kubeconfig that the control plane provider keeps for administrators.
func read(ctx context.Context, reader client.Reader, key client.ObjectKey) (*clientcmdapi.Config, error) {
	stored := &corev1.Secret{}
	name := client.ObjectKey{Namespace: key.Namespace, Name: secret.Name(key.Name, secret.Kubeconfig)}
	switch err := reader.Get(ctx, name, stored); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s; choose the Cluster's --namespace, or wait until its control plane has a kubeconfig", name)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	config, err := clientcmd.Load(stored.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig in Secret %s: %w", name, err)
	}
	return config, nil
}

func (w *writer) tell(file string, servers []string, ends string) error {
	_, err := fmt.Fprintf(w.cluster.Out, `%s is written. It leads to the API servers at %s.%s
Have the load balancer run, now and whenever you are logged in:
  systemctl --user enable --now kok-apiserver-lb@%s
Use it:
  kubectl --kubeconfig %s get nodes
`, file, strings.Join(servers, ", "), ends, w.name, file)
	return err
}
