package webhooks

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func validateEndpoint(endpoint controlplanev1.APIEndpoint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case endpoint == controlplanev1.APIEndpoint{}:
		return nil
	case endpoint.Host == "":
		errs = append(errs, field.Required(path.Child("host"), "port is set; set both, or neither to get the address of the API server's Service"))
	case endpoint.Port == 0:
		errs = append(errs, field.Required(path.Child("port"), "host is set; set both, or neither to get the address of the API server's Service"))
	}
	if endpoint.Host != "" && !isHost(endpoint.Host) {
		errs = append(errs, field.Invalid(path.Child("host"), endpoint.Host, "must be a DNS name or an IP address, without scheme and port"))
	}
	return errs
}

// validateOtherHostCluster refuses a control plane in another host cluster whose API the management cluster could not
// reach. One that is made by a topology has its endpoint in the Cluster, which the controller knows.
func validateOtherHostCluster(c *controlplanev1.KOKControlPlane, path *field.Path) field.ErrorList {
	_, ofTopology := c.Labels[clusterv1.ClusterTopologyOwnedLabel]
	if !c.Spec.Hosting.OnAnotherCluster() || ofTopology || c.Spec.ControlPlaneEndpoint.Host != "" ||
		c.Spec.Hosting.Exposure.Type == controlplanev1.ExposureLoadBalancer {
		return nil
	}
	return field.ErrorList{field.Required(path.Child("controlPlaneEndpoint"),
		"hosting.kubeconfigRef names another host cluster, whose cluster IPs the management cluster cannot reach; "+
			"set it to where the API will be reached, or hosting.exposure.type to LoadBalancer")}
}

// validateExposure refuses what an exposure has no room for.
func validateExposure(exposure controlplanev1.ExposureType, konnectivity controlplanev1.KonnectivitySpec, path *field.Path) field.ErrorList {
	if exposure != controlplanev1.ExposureNodePort || !konnectivity.Managed() {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("addons", "konnectivity", "mode"), konnectivity.Mode,
		"must be None with hosting.exposure.type NodePort: agents come to a port that is a fixed step above the API server's, and node ports cannot be had in pairs; "+
			"choose hosting.exposure.type LoadBalancer or hosting.networkMode HostNetwork")}
}

// validatePortPool refuses a pool where no host ports are taken, and a node selector that names another: the control plane's ports are
// its own in its pool alone.
func validatePortPool(hosting controlplanev1.HostingSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if hosting.PortPool != "" && hosting.OnPodNetwork() {
		errs = append(errs, field.Invalid(path.Child("portPool"), hosting.PortPool,
			"is for networkMode HostNetwork: pods on the pod network take no port of a host; remove it"))
	}
	if value, ok := hosting.NodeSelector[controlplanev1.PortPoolLabel]; ok && value != hosting.PortPool {
		errs = append(errs, field.Invalid(path.Child("nodeSelector").Key(controlplanev1.PortPoolLabel), value,
			"is the label of the host nodes of a port pool, which hosting.portPool of a new control plane chooses; remove it"))
	}
	return errs
}

func validateNodeSelector(selector map[string]string, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabels(selector, path)
}

// unreachable are the taints of nodes that the host cluster's control plane does not see.
var unreachable = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}

func validateTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, toleration := range tolerations {
		errs = append(errs, validateToleration(toleration, path.Index(i))...)
	}
	return errs
}

// validateToleration has the rules of the API server for tolerations of pods, and one of our own.
func validateToleration(t corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if t.Key == "" {
			errs = append(errs, field.Invalid(path.Child("operator"), t.Operator, "must be Exists when key is empty, which means every taint"))
		}
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, problem))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty when operator is Exists"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator,
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	if t.Effect != "" && !slices.Contains(effects, t.Effect) {
		errs = append(errs, field.NotSupported(path.Child("effect"), t.Effect, effects))
	}
	if t.TolerationSeconds != nil {
		switch {
		case t.Effect != corev1.TaintEffectNoExecute:
			errs = append(errs, field.Invalid(path.Child("tolerationSeconds"), *t.TolerationSeconds, "must be unset unless effect is NoExecute"))
		case t.Key == "" || slices.Contains(unreachable, t.Key):
			errs = append(errs, field.Invalid(path.Child("tolerationSeconds"), *t.TolerationSeconds,
				"must be unset: a cut link to the host cluster's control plane must not evict a control plane"))
		}
	}
	return errs
}
