package components_test

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/registry"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/ports"
)

// eachRendering runs a check on every component in every variant.
func eachRendering(t *testing.T, check func(t *testing.T, in *components.Input, component components.Component, objects []client.Object)) {
	for variant, input := range variants {
		for _, component := range registry.Components {
			t.Run(component.Name+"/"+variant, func(t *testing.T) {
				in := input()
				objects, err := component.Objects(component.Inputs(in))
				if err != nil {
					t.Fatal(err)
				}
				if component.Services != nil {
					services, err := component.Services(in)
					if err != nil {
						t.Fatal(err)
					}
					for _, service := range services {
						objects = append(objects, service)
					}
				}
				check(t, in, component, objects)
			})
		}
	}
}

// podOf is the pod template of a workload, nil for other objects.
func podOf(object client.Object) *corev1.PodTemplateSpec {
	switch workload := object.(type) {
	case *appsv1.StatefulSet:
		return &workload.Spec.Template
	case *appsv1.DaemonSet:
		return &workload.Spec.Template
	case *appsv1.Deployment:
		return &workload.Spec.Template
	}
	return nil
}

func podIn(t *testing.T, objects []client.Object) *corev1.PodTemplateSpec {
	t.Helper()
	var pods []*corev1.PodTemplateSpec
	for _, object := range objects {
		if pod := podOf(object); pod != nil {
			pods = append(pods, pod)
		}
	}
	if len(pods) != 1 || len(pods[0].Spec.Containers) == 0 {
		t.Fatalf("want one workload with a container, got %d workloads", len(pods))
	}
	for _, second := range pods[0].Spec.Containers[1:] {
		if second.Name != backup.Container {
			t.Fatalf("%s is beside the component's container", second.Name)
		}
	}
	for _, sidecar := range pods[0].Spec.InitContainers {
		ends := sidecar.Name == facts.Container || sidecar.Name == backup.SalvageContainer
		if !ends && ptr.Deref(sidecar.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			t.Fatalf("%s must end before the component starts", sidecar.Name)
		}
	}
	return pods[0]
}

// containersOf are the component's container and those beside it.
func containersOf(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.Containers, pod.InitContainers)
}

func TestEveryObjectIsFoundByItsLabels(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, component components.Component, objects []client.Object) {
		want := names.ComponentLabels(in.Cluster, component.Name)
		for _, object := range objects {
			if object.GetNamespace() != in.Cluster.Namespace || !maps.Equal(object.GetLabels(), want) {
				t.Errorf("%T %s in namespace %q has labels %v", object, object.GetName(), object.GetNamespace(), object.GetLabels())
			}
			if gvk := object.GetObjectKind().GroupVersionKind(); gvk.Kind == "" || gvk.Version == "" {
				t.Errorf("%T %s does not name its kind, which a revision needs", object, object.GetName())
			}
			if workload, ok := object.(*appsv1.StatefulSet); ok {
				for _, claim := range workload.Spec.VolumeClaimTemplates {
					if !maps.Equal(claim.Labels, want) {
						t.Errorf("claims have labels %v", claim.Labels)
					}
				}
			}
		}
	})
}

func TestEveryPodIsConfined(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, component components.Component, objects []client.Object) {
		template := podIn(t, objects)
		pod, security := template.Spec, template.Spec.SecurityContext
		for what, is := range map[string]bool{
			"runs as a user that is not root":           ptr.Deref(security.RunAsNonRoot, false) && ptr.Deref(security.RunAsUser, 0) > 0 && ptr.Deref(security.RunAsGroup, 0) > 0,
			"has the runtime's seccomp profile":         security.SeccompProfile != nil && security.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"has no service account token":              !ptr.Deref(pod.AutomountServiceAccountToken, true),
			"has no addresses of Services in its env":   !ptr.Deref(pod.EnableServiceLinks, true),
			"sees no processes of its host":             !pod.HostPID && !pod.HostIPC && !ptr.Deref(pod.ShareProcessNamespace, false),
			"is on the network of its mode":             pod.HostNetwork == !in.OnPodNetwork(),
			"resolves names as its host does":           pod.DNSPolicy == corev1.DNSDefault,
			"has the priority class":                    pod.PriorityClassName == components.PriorityClassName,
			"is on the chosen host nodes":               maps.Equal(pod.NodeSelector, in.Spec.Hosting.HostNodeLabels()) && len(pod.NodeSelector) > 0,
			"changes with its spec only":                changesWithItsSpecOnly(template),
			"is spread without being held back":         in.OnPodNetwork() || spreadSoftly(pod),
			"has volumes of the host nowhere":           !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }),
			"lets nobody else read mounted Secrets":     ownSecretsAreClosed(pod),
			"mounts configuration read-only":            onlyScratchIsWritten(pod),
			"fills no disk of its host":                 !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil && v.EmptyDir.SizeLimit.IsZero() }),
			"is labelled so that its selector finds it": selects(objects, template.Labels),
		} {
			if !is {
				t.Errorf("it is not true that the pod %s", what)
			}
		}
	})
}

// changesWithItsSpecOnly allows annotations for what a program reads once and its arguments do not tell.
func changesWithItsSpecOnly(template *corev1.PodTemplateSpec) bool {
	for key := range template.Annotations {
		if !slices.Contains([]string{etcd.QuotaAnnotation, kubeapiserver.AuditPolicyAnnotation, kubeapiserver.EgressAnnotation}, key) {
			return false
		}
	}
	return true
}

func TestEveryContainerIsConfined(t *testing.T) {
	eachRendering(t, func(t *testing.T, _ *components.Input, _ components.Component, objects []client.Object) {
		for _, container := range containersOf(podIn(t, objects).Spec) {
			own := container.SecurityContext
			// What the agent says the manager reads: no log may take its place. The image starts it.
			policy, words := corev1.TerminationMessageFallbackToLogsOnError, 1
			if container.Name == facts.Container {
				policy, words = corev1.TerminationMessageReadFile, 0
			}
			for what, is := range map[string]bool{
				"cannot gain privileges":             !ptr.Deref(own.AllowPrivilegeEscalation, true),
				"is not privileged":                  !ptr.Deref(own.Privileged, false),
				"has a read-only root file system":   ptr.Deref(own.ReadOnlyRootFilesystem, false),
				"has no capabilities":                len(own.Capabilities.Add) == 0 && slices.Equal(own.Capabilities.Drop, []corev1.Capability{"ALL"}),
				"keeps the pod's user":               own.RunAsUser == nil && own.RunAsNonRoot == nil && own.RunAsGroup == nil,
				"asks for CPU and memory":            !container.Resources.Requests.Cpu().IsZero() && !container.Resources.Requests.Memory().IsZero(),
				"is not pulled again on every start": container.ImagePullPolicy == corev1.PullIfNotPresent,
				"says why it ended":                  container.TerminationMessagePolicy == policy,
				"has a shell nowhere":                len(container.Command) == words && container.Lifecycle == nil,
			} {
				if !is {
					t.Errorf("it is not true that %s %s", container.Name, what)
				}
			}
		}
	})
}

func spreadSoftly(pod corev1.PodSpec) bool {
	return len(pod.TopologySpreadConstraints) == 2 && !slices.ContainsFunc(pod.TopologySpreadConstraints,
		func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != corev1.ScheduleAnyway })
}

func ownSecretsAreClosed(pod corev1.PodSpec) bool {
	return !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return strings.HasPrefix(v.Name, "kok-") &&
			(v.Secret != nil && ptr.Deref(v.Secret.DefaultMode, 0o777)&0o007 != 0 || v.Projected != nil && ptr.Deref(v.Projected.DefaultMode, 0o777)&0o007 != 0)
	})
}

func onlyScratchIsWritten(pod corev1.PodSpec) bool {
	return !slices.ContainsFunc(containersOf(pod), func(container corev1.Container) bool {
		return slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
			i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
			if i >= 0 && container.Name == backup.Container && pod.Volumes[i].PersistentVolumeClaim != nil {
				return false // Snapshots go there.
			}
			return i >= 0 && pod.Volumes[i].EmptyDir == nil && !mount.ReadOnly
		})
	})
}

func selects(objects []client.Object, labels map[string]string) bool {
	for _, object := range objects {
		var wanted map[string]string
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			wanted = o.Spec.Selector.MatchLabels
		case *appsv1.DaemonSet:
			wanted = o.Spec.Selector.MatchLabels
		case *appsv1.Deployment:
			wanted = o.Spec.Selector.MatchLabels
		case *policyv1.PodDisruptionBudget:
			wanted = o.Spec.Selector.MatchLabels
		case *corev1.Service:
			wanted = maps.Clone(o.Spec.Selector)
			// The StatefulSet's controller adds it.
			delete(wanted, appsv1.StatefulSetPodNameLabel)
		default:
			continue
		}
		for key, value := range wanted {
			if labels[key] != value {
				return false
			}
		}
	}
	return true
}

// Neither image tags nor labels can hold the "+" of a vendor's build.
func TestVersionsOfVendors(t *testing.T) {
	in := variants["default"]()
	in.Version = "v1.36.3+vendor.1"
	for _, component := range registry.Components {
		objects, err := component.Objects(component.Inputs(in))
		if err != nil {
			t.Fatal(err)
		}
		template := podIn(t, objects)
		image, version := template.Spec.Containers[0].Image, template.Labels[names.VersionLabel]
		if version == "" && strings.HasPrefix(component.Name, "etcd") {
			continue
		}
		if want := "registry.k8s.io/" + component.Name + ":v1.36.3_vendor.1"; image != want {
			t.Errorf("the image is %s, want %s", image, want)
		}
		if want := "v1.36.3_vendor.1"; version != want {
			t.Errorf("the label of %s is %s, want %s", component.Name, version, want)
		}
	}
}

// A cut link must not evict: the first toleration that matches a taint counts.
func TestEveryPodStaysWhereItIsWhileTheLinkIsCut(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, _ components.Component, objects []client.Object) {
		tolerations := podIn(t, objects).Spec.Tolerations
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			taint := &corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
			i := slices.IndexFunc(tolerations, func(toleration corev1.Toleration) bool {
				return toleration.Key == taint.Key && toleration.Effect == taint.Effect && toleration.Operator == corev1.TolerationOpExists
			})
			if i < 0 || tolerations[i].TolerationSeconds != nil {
				t.Errorf("taint %s is not tolerated for ever", key)
			}
		}
		for _, wanted := range in.Spec.Hosting.Tolerations {
			if !slices.ContainsFunc(tolerations, func(toleration corev1.Toleration) bool { return equality.Semantic.DeepEqual(toleration, wanted) }) {
				t.Errorf("toleration %v of the spec is not there", wanted)
			}
		}
	})
}

func TestPortsAreDeclaredAndInTheTenantsBlock(t *testing.T) {
	for variant, input := range variants {
		t.Run(variant, func(t *testing.T) {
			in := input()
			block := ports.Block(in.Spec.Hosting.Ports.First)
			users := map[int32]string{}
			for _, component := range registry.Components {
				// Each pod has ports of its own there.
				if in.OnPodNetwork() {
					clear(users)
				}
				objects, err := component.Objects(component.Inputs(in))
				if err != nil {
					t.Fatal(err)
				}
				for _, container := range containersOf(podIn(t, objects).Spec) {
					for _, port := range container.Ports {
						if in.OnPodNetwork() {
							if port.HostPort != 0 {
								t.Errorf("port %q of %s takes port %d of a host", port.Name, component.Name, port.HostPort)
							}
						} else if port.HostPort != port.ContainerPort || port.HostPort < block.First || port.HostPort > block.Last {
							t.Errorf("port %q of %s is %d on the host and %d in the container, want one of %s", port.Name, component.Name, port.HostPort, port.ContainerPort, block)
						}
						if user, taken := users[port.ContainerPort]; taken {
							t.Errorf("%s and %s listen on port %d", user, component.Name, port.ContainerPort)
						}
						users[port.ContainerPort] = component.Name
					}
					for _, listener := range listeners(t, in, component.Name, container) {
						if users[listener] != component.Name {
							t.Errorf("%s listens on port %d and does not declare it", component.Name, listener)
						}
					}
				}
			}
		})
	}
}

// listeners are the ports that a component is told to listen on.
func listeners(t *testing.T, in *components.Input, component string, container corev1.Container) []int32 {
	t.Helper()
	var texts []string
	for _, arg := range container.Args {
		if text, ok := strings.CutPrefix(arg, "--listen=:"); ok {
			texts = append(texts, text)
		}
		for _, name := range []string{"secure", "agent", "admin", "health"} {
			if text, ok := strings.CutPrefix(arg, "--"+name+"-port="); ok {
				texts = append(texts, text)
			}
		}
	}
	for _, cluster := range etcd.All {
		if cluster.Component != component {
			continue
		}
		config, err := cluster.Config(in, etcd.Membership{})
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range config.Data {
			for line := range strings.Lines(file) {
				if strings.HasPrefix(line, "listen-") {
					texts = append(texts, strings.TrimSpace(line[strings.LastIndex(line, ":")+1:]))
				}
			}
		}
	}
	if len(texts) == 0 {
		t.Fatalf("%s listens nowhere", component)
	}
	var found []int32
	for _, text := range texts {
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, int32(port))
	}
	return found
}

// Startup decides how long a creation takes; kubelet asks for readiness at once after it. What runs is asked seldom, as each probe costs.
func TestProbesAskPortsThatExist(t *testing.T) {
	eachRendering(t, func(t *testing.T, _ *components.Input, _ components.Component, objects []client.Object) {
		container := podIn(t, objects).Spec.Containers[0]
		for name, probe := range map[string]*corev1.Probe{
			"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe,
		} {
			if probe == nil || probe.HTTPGet == nil {
				t.Errorf("there is no %s probe", name)
				continue
			}
			if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == probe.HTTPGet.Port.IntVal }) {
				t.Errorf("the %s probe asks port %s, which is not declared", name, probe.HTTPGet.Port.String())
			}
			if want := map[string]int32{"startup": 1, "readiness": 3, "liveness": 10}[name]; probe.PeriodSeconds != want {
				t.Errorf("the %s probe asks every %d s, want %d", name, probe.PeriodSeconds, want)
			}
		}
	})
}

func TestServicesReachPortsThatExist(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, component components.Component, objects []client.Object) {
		for _, object := range objects {
			service, ok := object.(*corev1.Service)
			if !ok {
				continue
			}
			if service.Spec.ClusterIP != in.Addresses[service.Name] || service.Spec.ClusterIP == "" {
				t.Errorf("Service %s has address %q, want %q", service.Name, service.Spec.ClusterIP, in.Addresses[service.Name])
			}
			if isEtcd := component.Name != names.KubeAPIServer; service.Spec.PublishNotReadyAddresses != isEtcd {
				t.Errorf("Service %s publishes addresses that are not ready: %t", service.Name, service.Spec.PublishNotReadyAddresses)
			}
			for _, port := range service.Spec.Ports {
				if !slices.ContainsFunc(containersOf(podIn(t, objects).Spec), func(c corev1.Container) bool {
					return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
						return p.ContainerPort == port.TargetPort.IntVal || p.Name == port.TargetPort.StrVal
					})
				}) {
					t.Errorf("Service %s leads to port %s, which is not declared", service.Name, port.TargetPort.String())
				}
			}
		}
	})
}

// Two pods of one workload cannot share a host's port, elsewhere the new one comes first; and a single pod
// must not block a drain.
func TestRolloutsAndDrainsDoNotGetStuck(t *testing.T) {
	eachRendering(t, func(t *testing.T, in *components.Input, _ components.Component, objects []client.Object) {
		replicas, budgets := int32(0), 0
		surge, unavailable := 0, 1
		if in.OnPodNetwork() {
			surge, unavailable = 1, 0
		}
		for _, object := range objects {
			switch o := object.(type) {
			case *appsv1.Deployment:
				replicas = *o.Spec.Replicas
				if r := o.Spec.Strategy.RollingUpdate; r == nil || r.MaxSurge.IntValue() != surge || r.MaxUnavailable.IntValue() != unavailable {
					t.Errorf("rolls out as %v", o.Spec.Strategy)
				}
			case *appsv1.DaemonSet:
				if r := o.Spec.UpdateStrategy.RollingUpdate; r == nil || r.MaxSurge.IntValue() != surge || r.MaxUnavailable.IntValue() != unavailable {
					t.Errorf("rolls out as %v", o.Spec.UpdateStrategy)
				}
			case *appsv1.StatefulSet:
				replicas = *o.Spec.Replicas
				if o.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
					t.Error("members wait for each other")
				}
				if o.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
					t.Errorf("members are replaced by %v, without a look at the others", o.Spec.UpdateStrategy)
				}
			case *policyv1.PodDisruptionBudget:
				budgets++
				if o.Spec.MaxUnavailable.IntValue() != 1 {
					t.Errorf("the budget allows %v", o.Spec.MaxUnavailable)
				}
			}
		}
		if want := replicas > 1; (budgets == 1) != want || budgets > 1 {
			t.Errorf("%d replicas and %d budgets", replicas, budgets)
		}
	})
}

func TestRenderingIsPure(t *testing.T) {
	for variant, input := range variants {
		for _, component := range registry.Components {
			t.Run(component.Name+"/"+variant, func(t *testing.T) {
				in := input()
				first := render(t, component, in)
				if !equality.Semantic.DeepEqual(in, input()) {
					t.Error("rendering changed its input")
				}
				if !bytes.Equal(first, render(t, component, in)) || !bytes.Equal(first, render(t, component, input())) {
					t.Error("rendering again gave something else")
				}
			})
		}
	}
}
