package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

// scope is what one reconcile is about.
type scope struct {
	config  *bootstrapv1.KOKConfig
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
}

// created reports whether the bootstrap data was handed out.
func (s *scope) created() bool {
	return ptr.Deref(s.config.Status.Initialization.DataSecretCreated, false) && s.config.Status.DataSecretName != ""
}

func (s *scope) setCreated(name string) {
	s.config.Status.Initialization.DataSecretCreated = ptr.To(true)
	s.config.Status.DataSecretName = name
}

// used reports whether an infrastructure provider is known to have read the bootstrap data.
func (s *scope) used() bool {
	return s.machine.Spec.ProviderID != "" || ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false) || s.joined()
}

func (s *scope) joined() bool { return s.machine.Status.NodeRef.IsDefined() }

// blocked says what keeps the bootstrap data from being made, as far as the management cluster knows.
func (s *scope) blocked() (reason, message string) {
	switch {
	case util.IsControlPlaneMachine(s.machine):
		return bootstrapv1.InvalidSpecReason, "a KOKConfig makes workers, and Machine " + s.machine.Name + " is one of a control plane; use KubeadmConfig for it"
	case s.machine.Spec.Version == "":
		return bootstrapv1.InvalidSpecReason, "spec.version of Machine " + s.machine.Name + " is empty; set the Kubernetes version of the worker"
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return bootstrapv1.WaitingForClusterInfrastructureReason, "waiting for the infrastructure of Cluster " + s.cluster.Name
	case !ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false):
		return bootstrapv1.WaitingForControlPlaneReason, "waiting for the control plane of Cluster " + s.cluster.Name
	}
	return "", ""
}

func (s *scope) unavailable(reason, message string) {
	s.set(bootstrapv1.DataSecretAvailableCondition, metav1.ConditionFalse, reason, message)
}

func (s *scope) available() {
	s.set(bootstrapv1.DataSecretAvailableCondition, metav1.ConditionTrue, bootstrapv1.DataSecretAvailableReason, "")
}

func (s *scope) set(kind string, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(s.config, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// write patches what a reconcile changed.
func write(ctx context.Context, helper *patch.Helper, config *bootstrapv1.KOKConfig, succeeded bool) error {
	setReady(config)
	options := []patch.Option{patch.WithOwnedConditions{Conditions: []string{
		clusterv1.PausedCondition, bootstrapv1.ReadyCondition, bootstrapv1.DataSecretAvailableCondition, bootstrapv1.BootstrapTokenValidCondition,
	}}}
	if succeeded {
		options = append(options, patch.WithStatusObservedGeneration{})
	}
	if err := helper.Patch(ctx, config, options...); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// setReady sums up the conditions: ready when the data is there and its token is valid or no longer needed.
func setReady(config *bootstrapv1.KOKConfig) {
	ready := metav1.Condition{Type: bootstrapv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: bootstrapv1.ReadyReason}
	token := conditions.Get(config, bootstrapv1.BootstrapTokenValidCondition)
	switch data := conditions.Get(config, bootstrapv1.DataSecretAvailableCondition); {
	case data == nil:
		return
	case data.Status != metav1.ConditionTrue:
		ready.Status, ready.Reason, ready.Message = data.Status, data.Reason, data.Message
	case token != nil && token.Status == metav1.ConditionUnknown:
		ready.Status, ready.Reason, ready.Message = token.Status, token.Reason, token.Message
	}
	conditions.Set(config, ready)
}

func ownedByMachinePool(config *bootstrapv1.KOKConfig) bool {
	return slices.ContainsFunc(config.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "MachinePool" && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/")
	})
}

// refuseMachinePool writes why no bootstrap data is made: a MachinePool has one config for all its machines, and each
// machine needs a token of its own.
func (r *Reconciler) refuseMachinePool(ctx context.Context, config *bootstrapv1.KOKConfig) error {
	helper, err := patch.NewHelper(config, r.Client)
	if err != nil {
		return err
	}
	s := &scope{config: config}
	s.unavailable(bootstrapv1.InvalidSpecReason,
		"a MachinePool cannot use a KOKConfig, because every machine has a bootstrap token of its own; use a MachineDeployment")
	return write(ctx, helper, config, true)
}
