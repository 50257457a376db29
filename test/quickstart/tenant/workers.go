package tenant

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InstallNetwork applies the manifests of a pod network to the tenant, as a person does: Nodes turn ready
// when one runs.
func (t *Tenant) InstallNetwork(ctx context.Context, manifests string) error {
	directory, err := os.MkdirTemp("", "quickstart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory) //nolint:errcheck // a temporary directory
	kubeconfig, err := t.kubeconfig(ctx)
	if err != nil {
		return err
	}
	file := filepath.Join(directory, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return err
	}
	t.Log.Print("$ kubectl --kubeconfig %s.kubeconfig apply --server-side -f %s", t.Key.Name, filepath.Base(manifests))
	apply := exec.CommandContext(ctx, t.Kubectl, "--kubeconfig", file, "apply", "--server-side", "--force-conflicts", "-f", manifests)
	apply.Stdout, apply.Stderr = t.Log, t.Log
	if err := apply.Run(); err != nil {
		return fmt.Errorf("apply %s to the tenant: %w", manifests, err)
	}
	return nil
}

// WaitWorkers waits until all workers are Nodes that are ready.
func (t *Tenant) WaitWorkers(ctx context.Context) error {
	next := append([]string{
		fmt.Sprintf("kubectl --namespace %s get machines,idcmachines,kokconfigs,idchosts", t.Key.Namespace),
		fmt.Sprintf("kubectl --namespace %s describe idcmachines", t.Key.Namespace),
		"bin/lab exec worker-1 -- journalctl -u kok-cloud-init -u kok-bootstrap -u kok-apiserver-lb -u kubelet --no-pager -n 50",
	}, t.next()...)
	err := t.Log.Wait(ctx, fmt.Sprintf("%d workers of %s", t.Workers, t.Key), timeout, next, func(ctx context.Context) (bool, string, error) {
		machines, err := t.machines(ctx)
		if err != nil {
			return false, "", err
		}
		ready, blocked := readyWorkers(machines)
		return ready == t.Workers && len(machines) == t.Workers, fmt.Sprintf("(%d/%d) %s", ready, t.Workers, blocked), nil
	})
	if err != nil {
		return err
	}
	return t.showWorkers(ctx)
}

// readyWorkers counts the Machines that are ready Nodes, and says what another one waits for. Cluster API writes conditions
// before the rest of a status: for a moment a Machine is ready and names no Node.
func readyWorkers(machines []clusterv1.Machine) (ready int, blocked string) {
	blocked = "no Machine is made yet"
	for i := range machines {
		name := "Machine " + machines[i].Name
		missing := missing(name, []string{clusterv1.ReadyCondition}, machines[i].Status.Conditions)
		switch {
		case missing != "":
			blocked = missing
		case machines[i].Status.NodeRef.Name == "":
			blocked = name + " names no Node yet"
		default:
			ready++
		}
	}
	return ready, blocked
}

func (t *Tenant) machines(ctx context.Context) ([]clusterv1.Machine, error) {
	list := &clusterv1.MachineList{}
	if err := t.Client.List(ctx, list, client.InNamespace(t.Key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: t.Key.Name}); err != nil {
		return nil, fmt.Errorf("list the Machines of %s: %w", t.Key, err)
	}
	return list.Items, nil
}

// WorkerAddresses are those of the workers, one each.
func (t *Tenant) WorkerAddresses(ctx context.Context) ([]string, error) {
	machines, err := t.machines(ctx)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for i := range machines {
		at := slices.IndexFunc(machines[i].Status.Addresses, func(a clusterv1.MachineAddress) bool { return a.Type == clusterv1.MachineInternalIP })
		if at < 0 {
			return nil, fmt.Errorf("the Machine %s of %s has no address", machines[i].Name, t.Key)
		}
		addresses = append(addresses, machines[i].Status.Addresses[at].Address)
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%s has no Machine", t.Key)
	}
	return addresses, nil
}

// showWorkers prints the Nodes, and how long each took from the creation of its Machine.
func (t *Tenant) showWorkers(ctx context.Context) error {
	machines, err := t.machines(ctx)
	if err != nil {
		return err
	}
	return t.with(ctx, func(tenant *kubernetes.Clientset) error {
		table := tabwriter.NewWriter(t.Log, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "NODE\tADDRESS\tKUBELET\tREADY AFTER")
		for i := range machines {
			node, err := tenant.CoreV1().Nodes().Get(ctx, machines[i].Status.NodeRef.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get the Node of Machine %s: %w", machines[i].Name, err)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", node.Name, address(node), node.Status.NodeInfo.KubeletVersion, readyAfter(&machines[i], node))
		}
		return table.Flush()
	})
}

func address(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}

func readyAfter(machine *clusterv1.Machine, node *corev1.Node) time.Duration {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime.Sub(machine.CreationTimestamp.Time)
		}
	}
	return 0
}
