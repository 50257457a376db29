// Package tenant makes a tenant cluster from a template of this repository, waits until its control
// plane is usable, and uses it: as a person would who tries the project for the first time.
package tenant

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
)

// Tenant is one tenant cluster of a host cluster.
type Tenant struct {
	// Key is the namespace and name of the Cluster.
	Key client.ObjectKey
	// Version is its Kubernetes version.
	Version string
	// Workers is how many workers it has; none when the template knows no workers.
	Workers int
	// Template is the file that it is made from, ClusterctlConfig clusterctl's configuration.
	Template, ClusterctlConfig string
	// Edit, if it is set, changes the control plane before it is applied, as a person does where the template has no variable.
	Edit func(*controlplanev1.KOKControlPlane)
	// SharedDisk is true when workers share a disk with each other and with builds, as the lab's do: their kubelets then go by
	// what is free, and not by a share of it.
	SharedDisk bool
	// Clusterctl and Kubectl are programs.
	Clusterctl, Kubectl string
	// Client and Config are for the host cluster, Kubeconfig is the file with the same access.
	Client     client.Client
	Config     *rest.Config
	Kubeconfig string
	Log        *progress.Log

	reach *reach
}

// Variables of the template that the host cluster has no room for with their defaults: an etcd member
// needs a host node of its own, and a PersistentVolumeClaim a StorageClass.
func (t *Tenant) Variables(ctx context.Context) (map[string]string, error) {
	nodes := &corev1.NodeList{}
	if err := t.Client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list the host cluster's nodes: %w", err)
	}
	var hosts, others []string
	for _, node := range nodes.Items {
		if node.Labels[controlplanev1.HostNodeLabel] == "true" {
			hosts = append(hosts, node.Name)
		} else {
			others = append(others, node.Name)
		}
	}
	variables := map[string]string{}
	switch {
	case len(hosts) == 0:
		return nil, fmt.Errorf("no node of the host cluster may carry control planes: label one, or three for a highly available "+
			"control plane, with\n  kubectl label node <name> %s=true\nnodes: %s", controlplanev1.HostNodeLabel, strings.Join(others, ", "))
	case len(hosts) < 3:
		t.Log.Print("only %d host node(s) with the label %s: one member an etcd cluster instead of three", len(hosts), controlplanev1.HostNodeLabel)
		variables["ETCD_REPLICAS"], variables["ETCD_EVENTS_REPLICAS"] = "1", "1"
	}
	if len(hosts) == 1 {
		variables["CONTROLLER_MANAGER_REPLICAS"], variables["SCHEDULER_REPLICAS"] = "1", "1"
	}
	classes := &storagev1.StorageClassList{}
	if err := t.Client.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("list the host cluster's StorageClasses: %w", err)
	}
	if !slices.ContainsFunc(classes.Items, isDefault) {
		t.Log.Print("the host cluster has no default StorageClass: etcd's data lives only as long as its pods")
		variables["ETCD_STORAGE_TYPE"] = string(controlplanev1.EtcdStorageEmptyDir)
	}
	return variables, nil
}

func isDefault(class storagev1.StorageClass) bool {
	return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
}

// Apply runs `clusterctl generate cluster` and `kubectl apply`. It tries again for a while: a webhook
// whose manager became ready a moment ago may not be reachable yet.
func (t *Tenant) Apply(ctx context.Context, variables map[string]string) error {
	if err := t.waitDeleted(ctx); err != nil {
		return err
	}
	objects, err := t.Manifests(ctx, variables)
	if err != nil {
		return err
	}
	t.Log.Print("  | kubectl apply --server-side --filename -")
	next := []string{
		"kubectl --namespace kok-control-plane-system get pods,endpointslices",
		"kubectl --namespace kok-control-plane-system logs deployment/kok-control-plane-controller-manager",
	}
	return t.Log.Wait(ctx, "the host cluster to accept Cluster "+t.Key.String(), 30*time.Second, next,
		func(ctx context.Context) (bool, string, error) {
			apply := exec.CommandContext(ctx, t.Kubectl, "--kubeconfig", t.Kubeconfig, "apply", "--server-side",
				"--field-manager=quickstart", "-f", "-")
			apply.Stdin = bytes.NewReader(objects)
			var stderr bytes.Buffer
			apply.Stdout, apply.Stderr = t.Log, &stderr
			if err := apply.Run(); err != nil {
				return false, "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
			}
			return true, "", nil
		})
}

// Manifests runs `clusterctl generate cluster`, and returns what it writes with the changes of Edit and SharedDisk.
func (t *Tenant) Manifests(ctx context.Context, variables map[string]string) ([]byte, error) {
	args := []string{
		"generate", "cluster", t.Key.Name, "--from", t.Template,
		"--kubernetes-version", t.Version, "--target-namespace", t.Key.Namespace, "--config", t.ClusterctlConfig,
	}
	if t.Workers > 0 {
		args = append(args, "--worker-machine-count", strconv.Itoa(t.Workers))
	}
	t.Log.Print("$ clusterctl %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, t.Clusterctl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+t.Kubeconfig, "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	for name, value := range variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stderr = t.Log
	objects, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("clusterctl %s: %w", strings.Join(args, " "), err)
	}
	if objects, err = t.edited(objects); err != nil {
		return nil, err
	}
	if t.SharedDisk {
		if objects, err = withSharedDisk(objects); err != nil {
			return nil, err
		}
		t.Log.Print("(workers share this machine's disk: their kubelets are told to remove no images)")
	}
	return objects, nil
}

// waitDeleted lets a deletion that was begun before end: nothing can be added to what is being deleted.
func (t *Tenant) waitDeleted(ctx context.Context) error {
	deleting := func(ctx context.Context) (bool, error) {
		cluster := &clusterv1.Cluster{}
		err := t.Client.Get(ctx, t.Key, cluster)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("get Cluster %s: %w", t.Key, err)
		}
		return err == nil && !cluster.DeletionTimestamp.IsZero(), nil
	}
	if now, err := deleting(ctx); err != nil || !now {
		return err
	}
	return t.Log.Wait(ctx, "the old Cluster "+t.Key.String()+" to be deleted", timeout, t.next(),
		func(ctx context.Context) (bool, string, error) {
			still, err := deleting(ctx)
			return !still, "it is still there", err
		})
}
