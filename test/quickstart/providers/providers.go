// Package providers installs Cluster API's core and the providers of this repository into a host
// cluster with the real clusterctl, and brings an installed provider up to date while its version stays
// the same, as it does between two builds.
package providers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/quickstart/progress"
)

const (
	// buildAnnotation of a manager's Deployment says what was installed: the hash of the program and
	// its components.
	buildAnnotation = "kok.cluster.x-k8s.io/build"

	// coreLabel is Cluster API's core in clusterctl's inventory.
	coreLabel = "cluster-api"
	// topologyGate is Cluster API's feature gate of ClusterClasses; clusterctl's variable CLUSTER_TOPOLOGY sets it.
	topologyGate = "ClusterTopology"

	timeout = 3 * time.Minute
)

// core is the manager of Cluster API's core.
var core = client.ObjectKey{Namespace: "capi-system", Name: "capi-controller-manager"}

// Installer installs the providers.
type Installer struct {
	// Client is a client of the host cluster, Kubeconfig the file with the same access.
	Client     client.Client
	Kubeconfig string
	// Clusterctl is the program; Repository the folder that make release-manifests wrote.
	Clusterctl, Repository string
	// Version is the version of the providers there, CoreVersion that of Cluster API's core.
	Version, CoreVersion string
	// Providers are those to install.
	Providers []Provider
	// Load makes an image of a program available to the host cluster's nodes; nil when nodes pull it
	// themselves.
	Load func(ctx context.Context, image, program string) error
	Log  *progress.Log
}

// Install installs what is missing, updates what changed, and returns when all managers are ready.
func (i *Installer) Install(ctx context.Context) error {
	installed, err := i.installed(ctx)
	if err != nil {
		return err
	}
	builds, current := map[string]string{}, map[string]bool{}
	for _, p := range i.Providers {
		if builds[p.Label], err = i.build(p); err != nil {
			return err
		}
		if installed[p.Label] {
			if current[p.Label], err = i.isCurrent(ctx, p, builds[p.Label]); err != nil {
				return err
			}
		}
		if current[p.Label] {
			i.Log.Print("the installed provider %s is this build", p.Label)
		} else if i.Load != nil {
			for image, program := range p.Images() {
				i.Log.Print("loading %s into the host cluster's nodes", image)
				if err := i.Load(ctx, image, program); err != nil {
					return fmt.Errorf("load the image of %s: %w", program, err)
				}
			}
		}
	}
	if err := i.initialize(ctx, installed); err != nil {
		return err
	}
	if err := i.ensureTopology(ctx, installed); err != nil {
		return err
	}
	for _, p := range i.Providers {
		if installed[p.Label] && !current[p.Label] {
			if err := i.update(ctx, p, builds[p.Label]); err != nil {
				return err
			}
		}
	}
	if err := i.waitDeployment(ctx, core); err != nil {
		return err
	}
	for _, p := range i.Providers {
		if err := i.waitDeployment(ctx, p.Manager); err != nil {
			return err
		}
		if err := i.markBuild(ctx, p, builds[p.Label]); err != nil {
			return err
		}
	}
	return nil
}

// build is the hash of all that is installed of a provider.
func (i *Installer) build(p Provider) (string, error) {
	hash := sha256.New()
	files := append(slices.Sorted(maps.Values(p.Images())), filepath.Join(i.Repository, "repository", p.Label, i.Version, p.components))
	for _, file := range files {
		if err := hashFile(hash, file); err != nil {
			return "", fmt.Errorf("%w (make build release-manifests writes it)", err)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

func hashFile(hash io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	_, err = io.Copy(hash, f)
	return err
}

// installed is clusterctl's inventory. clusterctl adds a provider after its components, so that one
// whose installation was interrupted is not in it and is installed again.
func (i *Installer) installed(ctx context.Context) (map[string]bool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Kind: "ProviderList"})
	err := i.Client.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the providers that clusterctl installed: %w", err)
	}
	installed := map[string]bool{}
	for _, provider := range list.Items {
		installed[provider.GetName()] = true
	}
	return installed, nil
}

func (i *Installer) isCurrent(ctx context.Context, p Provider, build string) (bool, error) {
	d := &appsv1.Deployment{}
	err := i.Client.Get(ctx, p.Manager, d)
	return err == nil && d.Annotations[buildAnnotation] == build, client.IgnoreNotFound(err)
}

// initialize runs clusterctl init for the providers that are not installed.
func (i *Installer) initialize(ctx context.Context, installed map[string]bool) error {
	args := []string{"init"}
	if !installed[coreLabel] {
		args = append(args, "--core", coreLabel+":"+i.CoreVersion)
	}
	missing := len(args) > 1
	for _, kind := range kinds {
		value := "-" // clusterctl installs its own choice where nothing is said
		for _, p := range i.Providers {
			if p.kind == kind && !installed[p.Label] {
				value, missing = p.name+":"+i.Version, true
			}
		}
		args = append(args, "--"+kind, value)
	}
	if !missing {
		return nil
	}
	return i.clusterctl(ctx, i.Log, args...)
}

// ensureTopology switches topologies on in a core that was installed without.
func (i *Installer) ensureTopology(ctx context.Context, installed map[string]bool) error {
	if !installed[coreLabel] {
		return nil
	}
	d := &appsv1.Deployment{}
	if err := i.Client.Get(ctx, core, d); err != nil {
		return fmt.Errorf("read Deployment %s: %w", core, err)
	}
	for _, container := range d.Spec.Template.Spec.Containers {
		if slices.ContainsFunc(container.Args, func(arg string) bool { return strings.Contains(arg, topologyGate+"=true") }) {
			return nil
		}
	}
	i.Log.Print("Cluster API's core was installed without %s: applying it with", topologyGate)
	return i.apply(ctx, "core", coreLabel+":"+i.CoreVersion, func(*unstructured.Unstructured) error { return nil })
}

// update applies the components again and restarts the manager. clusterctl itself has no word for
// another build of the same version.
func (i *Installer) update(ctx context.Context, p Provider, build string) error {
	i.Log.Print("the provider %s changed since it was installed: applying this build", p.Label)
	return i.apply(ctx, p.kind, p.name+":"+i.Version, func(object *unstructured.Unstructured) error {
		if object.GetKind() != "Deployment" {
			return nil
		}
		return unstructured.SetNestedField(object.Object, build, "spec", "template", "metadata", "annotations", buildAnnotation)
	})
}

// apply applies the components of a provider, each after a change.
func (i *Installer) apply(ctx context.Context, kind, nameAndVersion string, change func(*unstructured.Unstructured) error) error {
	var components bytes.Buffer
	if err := i.clusterctl(ctx, &components, "generate", "provider", "--"+kind, nameAndVersion); err != nil {
		return err
	}
	objects, err := utilyaml.ToUnstructured(components.Bytes())
	if err != nil {
		return fmt.Errorf("decode what clusterctl generated: %w", err)
	}
	for n := range objects {
		object := &objects[n]
		if err := change(object); err != nil {
			return err
		}
		err := i.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("quickstart"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// markBuild writes down what is installed, last of all: an interrupted installation is done again.
func (i *Installer) markBuild(ctx context.Context, p Provider, build string) error {
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = p.Manager.Namespace, p.Manager.Name
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, buildAnnotation, build)
	if err := i.Client.Patch(ctx, d, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("note the build on Deployment %s: %w", p.Manager, err)
	}
	return nil
}

func (i *Installer) clusterctl(ctx context.Context, out io.Writer, args ...string) error {
	config, err := i.clusterctlConfig()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, i.Clusterctl, append(args, "--config", config)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+i.Kubeconfig, "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "CLUSTER_TOPOLOGY=true")
	cmd.Stdout = out
	cmd.Stderr = i.Log
	i.Log.Print("$ clusterctl %s", commandLine(args))
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("clusterctl %s: %w", commandLine(args), err)
	}
	return nil
}

// waitDeployment waits until every pod of a manager is of the last applied build and ready.
func (i *Installer) waitDeployment(ctx context.Context, key client.ObjectKey) error {
	next := []string{
		fmt.Sprintf("kubectl --namespace %s describe pods", key.Namespace),
		fmt.Sprintf("kubectl --namespace %s logs deployment/%s", key.Namespace, key.Name),
	}
	return i.Log.Wait(ctx, "Deployment "+key.String(), timeout, next, func(ctx context.Context) (bool, string, error) {
		d := &appsv1.Deployment{}
		if err := i.Client.Get(ctx, key, d); err != nil {
			return false, "", err
		}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		status := d.Status
		if status.ObservedGeneration == d.Generation && status.UpdatedReplicas == want && status.AvailableReplicas == want && status.Replicas == want {
			return true, "", nil
		}
		pods := &corev1.PodList{}
		if err := i.Client.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return false, "", err
		}
		return false, fmt.Sprintf("%d of %d ready%s", status.AvailableReplicas, want, podProblem(pods.Items)), nil
	})
}
