package webhooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
)

func validateKubelet(spec bootstrapv1.KubeletSpec, path *field.Path) field.ErrorList {
	errs := validateNodeLabels(spec.NodeLabels, path.Child("nodeLabels"))
	errs = append(errs, validateTaints(spec.Taints, path.Child("taints"))...)
	for i, arg := range spec.ExtraArgs {
		at := path.Child("extraArgs").Index(i)
		if reason, owned := cloudinit.OwnedArg(arg.Name); owned {
			errs = append(errs, field.Invalid(at.Child("name"), arg.Name, "belongs to the controller: "+reason))
		}
		if arg.Value != nil && strings.ContainsFunc(*arg.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			errs = append(errs, field.Invalid(at.Child("value"), *arg.Value, "must be one line of text"))
		}
	}
	return append(errs, validateConfiguration(spec.Configuration, path.Child("configuration"))...)
}

// validateNodeLabels has kubelet's own rule: kubelet does not start with a label that it must not set.
func validateNodeLabels(labels map[string]string, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(labels, path)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		namespace, _, found := strings.Cut(key, "/")
		reserved := found && (namespace == "kubernetes.io" || strings.HasSuffix(namespace, ".kubernetes.io") || namespace == "k8s.io" || strings.HasSuffix(namespace, ".k8s.io"))
		if reserved && !kubeletapis.IsKubeletLabel(key) {
			errs = append(errs, field.Invalid(path.Key(key), labels[key],
				"kubelet must not give its Node a label of kubernetes.io or k8s.io but those of kubelet.kubernetes.io, node.kubernetes.io and a few well-known ones; set it in the metadata of Machines instead"))
		}
	}
	return errs
}

var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, taint := range taints {
		at := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, at.Child("key"))...)
		for _, message := range validation.IsValidLabelValue(taint.Value) {
			errs = append(errs, field.Invalid(at.Child("value"), taint.Value, message))
		}
		if !slices.Contains(taintEffects, taint.Effect) {
			errs = append(errs, field.NotSupported(at.Child("effect"), taint.Effect, taintEffects))
		}
		if taint.TimeAdded != nil {
			errs = append(errs, field.Forbidden(at.Child("timeAdded"), "is set when the taint is added; remove it"))
		}
		id := taint.Key + ":" + string(taint.Effect)
		if seen[id] {
			errs = append(errs, field.Duplicate(at, id))
		}
		seen[id] = true
	}
	return errs
}

// evictionSignals are those of kubelet (k8s.io/kubernetes/pkg/kubelet/eviction/api).
var evictionSignals = []string{
	"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
	"containerfs.available", "containerfs.inodesFree", "pid.available",
}

var reservable = []string{"cpu", "memory", "ephemeral-storage", "pid"}

func validateConfiguration(spec bootstrapv1.KubeletConfigurationSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, signal := range slices.Sorted(maps.Keys(spec.EvictionHard)) {
		at, threshold := path.Child("evictionHard").Key(signal), spec.EvictionHard[signal]
		if !slices.Contains(evictionSignals, signal) {
			errs = append(errs, field.NotSupported(at, signal, evictionSignals))
		}
		if !isThreshold(threshold) {
			errs = append(errs, field.Invalid(at, threshold, "must be a quantity or a percentage from 0% to 100%, for example 100Mi or 10%"))
		}
	}
	errs = append(errs, validateReserved(spec.KubeReserved, path.Child("kubeReserved"))...)
	errs = append(errs, validateReserved(spec.SystemReserved, path.Child("systemReserved"))...)
	if size := spec.ContainerLogMaxSize; size != "" {
		if quantity, err := resource.ParseQuantity(size); err != nil || quantity.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("containerLogMaxSize"), size, "must be a positive number of bytes, for example 10Mi"))
		}
	}
	if resolver := spec.ResolvConf; resolver != nil && *resolver != "" {
		errs = append(errs, check(cloudinit.CheckPath(*resolver), path.Child("resolvConf"), *resolver)...)
	}
	return append(errs, validateShutdown(spec, path)...)
}

func validateReserved(reserved map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, kind := range slices.Sorted(maps.Keys(reserved)) {
		if !slices.Contains(reservable, kind) {
			errs = append(errs, field.NotSupported(path.Key(kind), kind, reservable))
		}
		if quantity, err := resource.ParseQuantity(reserved[kind]); err != nil || quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Key(kind), reserved[kind], "must be a quantity, for example 100m or 256Mi"))
		}
	}
	return errs
}

func validateShutdown(spec bootstrapv1.KubeletConfigurationSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d := spec.ShutdownGracePeriod; d != nil && d.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("shutdownGracePeriod"), d.Duration.String(), "must not be negative"))
	}
	if whole, part := spec.ShutdownGracePeriod, spec.ShutdownGracePeriodCriticalPods; whole != nil && part != nil && (part.Duration < 0 || part.Duration > whole.Duration) {
		errs = append(errs, field.Invalid(path.Child("shutdownGracePeriodCriticalPods"), part.Duration.String(),
			fmt.Sprintf("must be from 0 to shutdownGracePeriod, %s", whole.Duration)))
	}
	return errs
}

func isThreshold(value string) bool {
	if percent, found := strings.CutSuffix(value, "%"); found {
		quantity, err := resource.ParseQuantity(percent)
		return err == nil && quantity.Sign() >= 0 && quantity.AsApproximateFloat64() <= 100
	}
	quantity, err := resource.ParseQuantity(value)
	return err == nil && quantity.Sign() >= 0
}
