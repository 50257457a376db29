package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

// timeout of a control plane's creation. It usually takes well under a minute.
const timeout = 5 * time.Minute

// wanted are the conditions of a control plane that is ready in every part, in the order in which they
// become true.
var wanted = []string{
	conditionsv1.CertificatesAvailableCondition,
	conditionsv1.EtcdClusterHealthyCondition,
	conditionsv1.InitializedCondition,
	conditionsv1.AvailableCondition,
	conditionsv1.ControlPlaneComponentsHealthyCondition,
}

// Wait waits until the control plane is available with every replica ready, and Cluster API has seen it.
func (t *Tenant) Wait(ctx context.Context) error {
	seen := map[string]bool{}
	began := time.Now()
	return t.Log.Wait(ctx, "the control plane of "+t.Key.String(), timeout, t.next(), func(ctx context.Context) (bool, string, error) {
		controlPlane := &controlplanev1.KOKControlPlane{}
		if err := t.Client.Get(ctx, t.Key, controlPlane); err != nil {
			return false, "", err
		}
		for _, name := range wanted {
			if meta.IsStatusConditionTrue(controlPlane.Status.Conditions, name) && !seen[name] {
				seen[name] = true
				t.Log.Print("%s is true after %.1fs", name, time.Since(began).Seconds())
			}
		}
		if blocked := missing("KOKControlPlane", wanted, controlPlane.Status.Conditions); blocked != "" {
			return false, summary(controlPlane) + blocked, nil
		}
		if controlPlane.Status.ObservedGeneration != controlPlane.Generation {
			return false, "the controller has not seen the last change of the KOKControlPlane", nil
		}
		cluster := &clusterv1.Cluster{}
		if err := t.Client.Get(ctx, t.Key, cluster); err != nil {
			return false, "", err
		}
		blocked := missing("Cluster", []string{clusterv1.ClusterControlPlaneAvailableCondition}, cluster.Status.Conditions)
		return blocked == "", blocked, nil
	})
}

// next are commands that tell more of a control plane that does not become ready.
func (t *Tenant) next() []string {
	return []string{
		fmt.Sprintf("kubectl --namespace %s describe kokcontrolplane %s", t.Key.Namespace, t.Key.Name),
		fmt.Sprintf("clusterctl describe cluster %s --namespace %s --show-conditions all", t.Key.Name, t.Key.Namespace),
		fmt.Sprintf("kubectl --namespace %s get pods --selector %s=%s", t.Key.Namespace, clusterv1.ClusterNameLabel, t.Key.Name),
		"kubectl --namespace kok-control-plane-system logs deployment/kok-control-plane-controller-manager",
	}
}

// missing says which condition, the first in order, is not true and why.
func missing(kind string, names []string, conditions []metav1.Condition) string {
	for _, name := range names {
		condition := meta.FindStatusCondition(conditions, name)
		switch {
		case condition == nil:
			return fmt.Sprintf("%s has no condition %s yet", kind, name)
		case condition.Status != metav1.ConditionTrue:
			return fmt.Sprintf("%s %s=%s: %s", kind, name, condition.Status, oneLine(condition.Message))
		}
	}
	return ""
}

// summary says how far the pods are.
func summary(controlPlane *controlplanev1.KOKControlPlane) string {
	status := controlPlane.Status
	var parts []string
	if status.EtcdHealth != "" {
		parts = append(parts, "etcd "+status.EtcdHealth)
	}
	if status.DesiredReplicas != nil && status.ReadyReplicas != nil {
		parts = append(parts, fmt.Sprintf("kube-apiserver %d/%d", *status.ReadyReplicas, *status.DesiredReplicas))
	}
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, ", ") + ") "
}

// oneLine shortens a message to its first problem and how many more there are. Messages are lists,
// with a problem a line or separated by semicolons.
func oneLine(message string) string {
	problems := strings.FieldsFunc(message, func(r rune) bool { return r == '\n' || r == ';' })
	for i, problem := range problems {
		problems[i] = strings.TrimLeft(strings.TrimSpace(problem), "* ")
	}
	problems = slices.DeleteFunc(problems, func(problem string) bool { return problem == "" || strings.HasSuffix(problem, ":") })
	switch len(problems) {
	case 0:
		return message
	case 1:
		return problems[0]
	default:
		return fmt.Sprintf("%s (and %d more)", problems[0], len(problems)-1)
	}
}
