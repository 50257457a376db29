package controllers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hostclient"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/nodes"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/background"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

const (
	// bootstrapTimeout bounds one login to the host, not all of cloud-init.
	bootstrapTimeout = 2 * time.Minute
	// bootstrapAgain is the time until the next login while cloud-init runs, bootstrapRetry that after a login that failed.
	// bootstrapRecheck is that after cloud-init failed: a person may put it right.
	bootstrapAgain   = time.Second
	bootstrapRetry   = 5 * time.Second
	bootstrapRecheck = 30 * time.Second
)

// bootstrapSeen is how far a bootstrap is.
type bootstrapSeen struct {
	// known is false until the first login has ended.
	known    bool
	progress bootstrap.Progress
	// err says that the host was not reached, or failed.
	err error
	// data says what is wrong with the bootstrap data.
	data string
}

func (s bootstrapSeen) done() bool {
	return s.known && s.err == nil && s.progress.State == bootstrap.Done
}

func (s bootstrapSeen) failed() bool {
	return s.data != "" || s.known && s.err == nil && s.progress.State == bootstrap.Failed
}

// bootstrap makes the host a machine in the background, and notes how far that is. Bootstrap data that cannot be used is a
// problem only while the host is no machine yet. After clusterctl move the host itself tells how far it is.
func (r *MachineReconciler) bootstrap(ctx context.Context, s *machineScope) error {
	data, problem, err := r.bootstrapData(ctx, s)
	if err != nil {
		return err
	}
	host := s.claim.Host.DeepCopy()
	machine := bootstrap.Machine{
		Claimant:  ownership.Claimant{InstanceID: s.machine.Spec.InstanceID},
		Namespace: s.machine.Namespace, Name: s.machine.Name, ProviderID: s.machine.Spec.ProviderID,
		PodRanges: s.cluster.Spec.ClusterNetwork.Pods.CIDRBlocks, UserData: data,
	}
	sum := sha256.Sum256(data)
	outcome, known := r.work.Run(background.Key{Object: client.ObjectKeyFromObject(s.machine), Kind: workKind}, background.Task{
		// A change of spec.takeOver starts the bootstrap anew at once.
		Identity: "bootstrap/" + host.Name + "/" + hostclient.Access(host) + "/" + hex.EncodeToString(sum[:]) + "/" + host.Spec.TakeOver,
		Timeout:  bootstrapTimeout,
		Do: func(ctx context.Context) background.Outcome {
			seen := bootstrapSeen{known: true}
			seen.progress, seen.err = r.bootstrapOnce(ctx, host, machine)
			return seen.outcome()
		},
	})
	if !known {
		return nil
	}
	seen, ok := outcome.Value.(bootstrapSeen)
	if !ok {
		seen = bootstrapSeen{known: true, err: errors.New(outcome.Text)}
	}
	if errors.Is(seen.err, bootstrap.ErrNoBootstrapData) {
		seen.data = problem
	}
	s.progress = seen
	if refused := seen.refused(); refused != nil && conditions.GetReason(s.machine, infrav1.BootstrappedCondition) != infrav1.InUseReason {
		r.recorder.Eventf(s.machine, host, corev1.EventTypeWarning, infrav1.InUseReason, "Bootstrap", "%s", errortext.Short(inUse(host, refused, leaveMachine), longestNote))
	}
	if problem := seen.progress.Software; seen.failed() && problem != nil {
		if reason := softwareReason(problem); conditions.GetReason(s.machine, infrav1.BootstrappedCondition) != reason {
			r.recorder.Eventf(s.machine, host, corev1.EventTypeWarning, reason, "Bootstrap", "%s", errortext.Short(softwareFailed(host.Name, problem), longestNote))
		}
	}
	if seen.done() {
		r.event(s.machine, "Bootstrapped", "Bootstrap", "cloud-init made a node of IDCHost %s", host.Name)
		if avoided := sourcesAvoided(seen.progress.Avoided); avoided != "" {
			r.recorder.Eventf(s.machine, host, corev1.EventTypeWarning, "SourcesAvoided", "Bootstrap", "%s", errortext.Short("on IDCHost "+host.Name+" "+avoided, longestNote))
		}
	}
	return nil
}

// bootstrapOnce logs in once and goes on with the bootstrap. It reads the Nodes anew: one that has appeared since may have
// the host's address.
func (r *MachineReconciler) bootstrapOnce(ctx context.Context, host *infrav1.IDCHost, machine bootstrap.Machine) (bootstrap.Progress, error) {
	claimant, err := nodes.Claimant(ctx, r.Client, host, machine.InstanceID)
	if err != nil {
		return bootstrap.Progress{}, err
	}
	machine.Claimant = *claimant
	return r.Hosts.Bootstrap(ctx, host, machine)
}

// workKind is the kind of all tasks that work on a machine's host: there is one at a time.
const workKind = "work"

// refused is why the host was not changed, because it is in use; nil when it was.
func (s bootstrapSeen) refused() *ownership.InUseError {
	var refused *ownership.InUseError
	if errors.As(s.err, &refused) {
		return refused
	}
	return nil
}

func (s bootstrapSeen) outcome() background.Outcome {
	outcome := background.Outcome{Value: s}
	switch {
	case errors.Is(s.err, bootstrap.ErrNoBootstrapData), s.refused() != nil:
		outcome.Text, outcome.Again = s.err.Error(), bootstrapRecheck
	case s.err != nil:
		outcome.Text, outcome.Again = s.err.Error(), bootstrapRetry
	case s.progress.State == bootstrap.Running:
		outcome.Text, outcome.Again = s.progress.Detail, bootstrapAgain
	case s.progress.State == bootstrap.Failed:
		outcome.Text, outcome.Again = s.progress.Detail+s.progress.Output, bootstrapRecheck
		if problem := s.progress.Software; problem != nil {
			outcome.Text += string(problem.Reason) + problem.Component + problem.Message
		}
	default:
		outcome.Text = string(s.progress.State)
	}
	return outcome
}

// bootstrapData reads the Secret of the bootstrap provider (contract for BootstrapConfig, "Bootstrap
// data"). When they cannot be used, it returns no data, and says for people what is wrong.
func (r *MachineReconciler) bootstrapData(ctx context.Context, s *machineScope) ([]byte, string, error) {
	if s.owner.Spec.Bootstrap.DataSecretName == nil {
		return nil, fmt.Sprintf("Machine %s names no bootstrap data any more", s.owner.Name), nil
	}
	name := *s.owner.Spec.Bootstrap.DataSecretName
	secret := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Sprintf("Secret %s with the bootstrap data of Machine %s is not there; delete the Machine, its replacement gets another one", name, s.owner.Name), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the bootstrap data: %w", err)
	}
	if format := string(secret.Data["format"]); format != "" && format != string(bootstrapv1.CloudConfig) {
		return nil, fmt.Sprintf("the bootstrap data in Secret %s have format %q; hosts run cloud-init, make the bootstrap provider write %s", name, format, bootstrapv1.CloudConfig), nil
	}
	if len(secret.Data["value"]) == 0 {
		return nil, fmt.Sprintf("Secret %s has no bootstrap data in its key value", name), nil
	}
	if !isUserData(secret.Data["value"]) {
		return nil, fmt.Sprintf("Secret %s, which Machine %s names, has no user data of cloud-init in its key value; name the Secret that a bootstrap provider wrote", name, s.owner.Name), nil
	}
	return secret.Data["value"], "", nil
}

// isUserData reports whether the data are in a format of cloud-init. A user who may write Machines can name any Secret of
// the namespace, and kubeconfigs are stored under the same key, too (https://cloudinit.readthedocs.io, "User data
// formats").
func isUserData(value []byte) bool {
	return slices.ContainsFunc([]string{"#", "Content-Type:", "MIME-Version:", "\x1f\x8b"}, func(start string) bool { return bytes.HasPrefix(value, []byte(start)) })
}

func (r *MachineReconciler) event(machine *infrav1.IDCMachine, reason, action, format string, args ...any) {
	r.recorder.Eventf(machine, nil, corev1.EventTypeNormal, reason, action, format, args...)
}
