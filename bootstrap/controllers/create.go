package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/clusterca"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
)

// unwatchedInterval is how often objects without a watch are read.
const unwatchedInterval = 15 * time.Second

// create makes the bootstrap data. When it cannot, the condition says why.
func (r *Reconciler) create(ctx context.Context, s *scope) (ctrl.Result, error) {
	result, err := r.makeData(ctx, s)
	if err != nil && !apierrors.IsConflict(err) {
		s.unavailable(bootstrapv1.ReconcileFailedReason, errortext.Steady(err))
	}
	return result, err
}

// makeData makes the bootstrap data: Secret first, then the token in the tenant, then status.
func (r *Reconciler) makeData(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !s.machine.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if reason, message := s.blocked(); reason != "" {
		ctrl.LoggerFrom(ctx).Info("The bootstrap data cannot be made", "reason", message)
		s.unavailable(reason, message)
		return ctrl.Result{}, nil
	}
	tenant, err := r.Tenants.GetUncachedClient(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		return r.unreachable(s, err)
	}
	in, result, err := r.gather(ctx, s, tenant)
	if in == nil || err != nil {
		return result, err
	}
	if err := r.mint(ctx, s, tenant, in); err != nil {
		var invalid *invalidError
		var conflict *conflictError
		switch {
		case errors.As(err, &invalid):
			s.unavailable(bootstrapv1.InvalidSpecReason, err.Error())
			return ctrl.Result{}, nil
		case errors.As(err, &conflict):
			s.unavailable(bootstrapv1.DataSecretConflictReason, err.Error())
			return ctrl.Result{RequeueAfter: unwatchedInterval}, nil
		}
		return ctrl.Result{}, err
	}
	s.setCreated(s.config.Name)
	s.available()
	ctrl.LoggerFrom(ctx).Info("The bootstrap data is there", "Secret", klog.KRef(s.config.Namespace, s.config.Name))
	r.recorder.Eventf(s.config, s.machine, corev1.EventTypeNormal, "DataSecretCreated", "CreateDataSecret",
		"Secret %s has the bootstrap data of Machine %s", s.config.Name, s.machine.Name)
	return r.renewalDue(s), nil
}

// invalidError says what a person must change in the spec.
type invalidError struct{ error }

// conflictError says that a Secret belongs to something else.
type conflictError struct{ error }

// gather reads all that the data depends on, except the token. When it returns neither an input nor an error, something is
// missing, and the condition says what.
func (r *Reconciler) gather(ctx context.Context, s *scope, tenant client.Client) (*cloudinit.Input, ctrl.Result, error) {
	trusted, err := r.trustedCAs(ctx, s)
	if err != nil {
		return nil, ctrl.Result{}, err
	}
	if len(trusted) == 0 {
		s.unavailable(bootstrapv1.WaitingForCAReason, fmt.Sprintf(
			"waiting for the key %s of Secret %s, the certificate of the cluster's certificate authority; the Secret must have the label %s",
			secret.TLSCrtDataName, secret.Name(s.cluster.Name, secret.ClusterCA), clusterv1.ClusterNameLabel))
		return nil, ctrl.Result{}, nil
	}
	outside, err := r.outOfReach(ctx, s)
	if err != nil {
		return nil, ctrl.Result{}, err
	}
	if outside != "" {
		s.unavailable(bootstrapv1.APIServersOutOfReachReason, outside)
		return nil, ctrl.Result{}, nil
	}
	contents, err := r.contents(ctx, s.config)
	var described *cloudinit.Software
	if err == nil {
		described, err = r.software(ctx, s)
	}
	var absent *notThereError
	if errors.As(err, &absent) {
		s.unavailable(absent.reason, err.Error())
		return nil, ctrl.Result{RequeueAfter: unwatchedInterval}, nil
	}
	if err != nil {
		return nil, ctrl.Result{}, err
	}
	servers, err := apiServers(ctx, tenant)
	if err != nil {
		return nil, ctrl.Result{}, err
	}
	if len(servers) == 0 {
		s.unavailable(bootstrapv1.WaitingForAPIServersReason, "waiting for an address in the tenant's EndpointSlice default/kubernetes")
		return nil, ctrl.Result{RequeueAfter: unwatchedInterval}, nil
	}
	konnectivity, err := konnectivityPort(s.cluster, servers)
	if err != nil {
		return nil, ctrl.Result{}, err
	}
	return &cloudinit.Input{
		Version:  s.machine.Spec.Version,
		Spec:     s.config.Spec,
		Contents: contents,
		Software: described,
		Cluster: cloudinit.Cluster{
			CABundle:         trusted,
			APIServers:       servers,
			KonnectivityPort: konnectivity,
			PodCIDRs:         s.cluster.Spec.ClusterNetwork.Pods.CIDRBlocks,
			ServiceCIDRs:     services.CIDRs(s.cluster),
			DNSDomain:        services.DNSDomain(s.cluster),
		},
	}, ctrl.Result{}, nil
}

// trustedCAs returns the cluster CAs, as PEM, that a machine has to trust when it joins now. It returns nothing while the Cluster has no CA.
func (r *Reconciler) trustedCAs(ctx context.Context, s *scope) ([]byte, error) {
	authority := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: secret.Name(s.cluster.Name, secret.ClusterCA)}
	if err := r.Client.Get(ctx, key, authority); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get Secret %s with the cluster's certificate authority: %w", key.Name, err)
	}
	return clusterca.Trusted(authority), nil
}

// contents reads the Secrets that files come from, which clusterctl move takes along from then on. The error is a
// *notThereError when a person has to do something.
func (r *Reconciler) contents(ctx context.Context, config *bootstrapv1.KOKConfig) (map[bootstrapv1.SecretKey][]byte, error) {
	contents := map[bootstrapv1.SecretKey][]byte{}
	for i, file := range config.Spec.Files {
		if file.ContentFrom == nil {
			continue
		}
		source := file.ContentFrom.Secret
		live, err := r.givenAway(ctx, config.Namespace, source.Name)
		if err != nil {
			return nil, fmt.Errorf("spec.files[%d].contentFrom: %w", i, err)
		}
		content, found := live.Data[source.Key]
		if !found {
			return nil, &notThereError{bootstrapv1.ReferencedSecretNotFoundReason,
				fmt.Sprintf("spec.files[%d].contentFrom: Secret %s has no key %s; add it", i, source.Name, source.Key)}
		}
		if err := giveaway.TakeAlong(ctx, r.Client, live); err != nil {
			return nil, err
		}
		contents[source] = content
	}
	return contents, nil
}

// givenAway reads a Secret that a spec names and whose content goes to machines. It reads from the API server, because the
// cache has only Secrets with the label of a Cluster. Errors tell nothing of a Secret that must not be given away, not even
// its keys.
func (r *Reconciler) givenAway(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	live := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, live)
	if apierrors.IsNotFound(err) {
		return nil, &notThereError{bootstrapv1.ReferencedSecretNotFoundReason, "there is no Secret " + name + "; create it"}
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", name, err)
	}
	if refused := giveaway.Refused(live); refused != "" {
		return nil, &notThereError{bootstrapv1.ReferencedSecretNotForTenantsReason, refused}
	}
	return live, nil
}

// tenantProblem says why there may be no connection to the tenant; empty when that is not known.
func (r *Reconciler) tenantProblem(s *scope) string {
	if r.TenantProblem == nil {
		return ""
	}
	return r.TenantProblem(client.ObjectKeyFromObject(s.cluster))
}

// unreachable waits for a connection to the tenant. A new connection wakes the controller.
func (r *Reconciler) unreachable(s *scope, err error) (ctrl.Result, error) {
	if !errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, fmt.Errorf("connect to the tenant: %w", err)
	}
	message := fmt.Sprintf("there is no connection to the API of Cluster %s; see its condition RemoteConnectionProbe", s.cluster.Name)
	if problem := r.tenantProblem(s); problem != "" {
		message = fmt.Sprintf("there is no connection to the API of Cluster %s: %s", s.cluster.Name, errortext.SteadyText(problem))
	}
	if s.created() {
		s.set(bootstrapv1.BootstrapTokenValidCondition, metav1.ConditionUnknown, bootstrapv1.BootstrapTokenUnknownReason, message)
	} else {
		s.unavailable(bootstrapv1.TenantUnreachableReason, message)
	}
	return ctrl.Result{RequeueAfter: time.Minute}, nil
}
