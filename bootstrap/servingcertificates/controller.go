package servingcertificates

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/references"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/services"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/tenantapi"
)

// waitInterval is how often a request is looked at that waits for something without a watch, such as a Node's own addresses.
const waitInterval = 10 * time.Second

const (
	// requestsATurn is how many requests of a tenant one reconcile looks at. A tenant's administrator can make requests faster
	// than the rate limit of the client lets decisions be written: others must have their turn, too.
	requestsATurn = 100
	// nextTurn is how soon a tenant with more requests is reconciled again.
	nextTurn = time.Second
)

// Reconciler decides on kubelets' requests for certificates in tenants. It decides on serving certificates and, in tenants
// of a KOKControlPlane, on first client certificates, which nodes request with a bootstrap token. It handles nodes whose
// Machine has a KOKConfig, and all nodes of a KOKControlPlane: there kubelets request serving certificates whatever the
// bootstrap provider is. See docs/decisions/certificates.md#the-manager-approves-first-certificates-the-tenant-approves-renewals.
type Reconciler struct {
	// Client reads from the management cluster's cache.
	Client client.Reader
	// APIReader reads from the management cluster's API server.
	APIReader client.Reader
	// Tenants has connections to tenants.
	Tenants clustercache.ClusterCache
	// Guard returns the guard for the tenant of a Cluster.
	Guard func(cluster client.ObjectKey) *tenantapi.Guard
	// WatchFilterValue restricts the controller to Clusters with this value of Cluster API's watch label.
	WatchFilterValue string

	watcher clustercache.SourceWatcher[ctrl.Request]
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kokcontrolplanes,verbs=get

// Reconcile decides on all pending requests of one Cluster's tenant.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, request.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.WatchFilterValue != "" && cluster.Labels[clusterv1.WatchLabel] != r.WatchFilterValue || annotations.IsPaused(cluster, cluster) {
		return ctrl.Result{}, nil
	}
	machines := &clusterv1.MachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the Machines of Cluster %s: %w", cluster.Name, err)
	}
	identity, err := identityOf(cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	ours := machines.Items
	if !references.HasKOKControlPlane(cluster) {
		ours = bootstrappedByKOK(machines.Items)
	}
	// A node of a KOKControlPlane may join without a Machine.
	if len(ours) == 0 && !references.HasKOKControlPlane(cluster) {
		return ctrl.Result{}, nil
	}
	result, err := r.decideAll(ctx, cluster, identity, ours, machines.Items)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		// Cluster API's own controllers wait as long. A new connection wakes this one sooner.
		return ctrl.Result{RequeueAfter: time.Minute}, nil
	}
	return result, err
}

func bootstrappedByKOK(machines []clusterv1.Machine) []clusterv1.Machine {
	var ours []clusterv1.Machine
	for _, machine := range machines {
		if references.HasKOKConfig(&machine) {
			ours = append(ours, machine)
		}
	}
	return ours
}

// identityOf has the names and addresses that no node of a Cluster may have.
func identityOf(cluster *clusterv1.Cluster) (Cluster, error) {
	networks, err := services.Networks(services.CIDRs(cluster))
	if err != nil {
		return Cluster{}, fmt.Errorf("tell the addresses of Services from those of nodes: %w", err)
	}
	return Cluster{ServiceCIDRs: networks, DNSDomain: services.DNSDomain(cluster), Endpoint: cluster.Spec.ControlPlaneEndpoint.Host}, nil
}

func (r *Reconciler) decideAll(ctx context.Context, owner *clusterv1.Cluster, identity Cluster, machines, all []clusterv1.Machine) (ctrl.Result, error) {
	cluster := client.ObjectKeyFromObject(owner)
	err := r.Tenants.Watch(ctx, cluster, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: "serving-certificates", Watcher: r.watcher, Kind: &certificatesv1.CertificateSigningRequest{},
		EventHandler: (&arrivals{cluster: cluster, guard: r.Guard(cluster)}).handler(),
	}))
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("watch the certificate signing requests of the tenant: %w", err)
	}
	tenant, err := r.Tenants.GetClient(ctx, cluster)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("connect to the tenant: %w", err)
	}
	requests := &certificatesv1.CertificateSigningRequestList{}
	if err := tenant.List(ctx, requests); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the certificate signing requests of the tenant: %w", err)
	}
	// They are read at most once, and only for a Machine without addresses.
	holders := sync.OnceValues(func() (*holders, error) { return r.holders(ctx, owner, all) })
	tokens := r.tokenOwners(ctx, owner.Namespace, all)
	var result ctrl.Result
	var problems []error
	turn := 0
	// The order is random: otherwise requests that wait would keep others from their turn for ever.
	for _, i := range rand.Perm(len(requests.Items)) {
		if !Pending(&requests.Items[i]) {
			continue
		}
		if turn++; turn > requestsATurn {
			result.RequeueAfter = nextTurn
			break
		}
		if _, isFirst := TokenID(&requests.Items[i]); isFirst {
			// In tenants of other control planes kube-controller-manager approves these.
			if references.HasKOKControlPlane(owner) {
				waits, err := r.decideFirst(ctx, tenant, cluster, requests.Items[i].DeepCopy(), all, tokens)
				if waits {
					result.RequeueAfter = waitInterval
				}
				problems = append(problems, err)
			}
			continue
		}
		waits, err := r.decide(ctx, tenant, cluster, identity, requests.Items[i].DeepCopy(), machines, holders)
		if waits {
			result.RequeueAfter = waitInterval
		}
		problems = append(problems, err)
	}
	return result, errors.Join(problems...)
}

// decide decides on one request and writes that. It reports whether the request waits for something without a watch.
func (r *Reconciler) decide(ctx context.Context, tenant client.Client, cluster client.ObjectKey, identity Cluster, request *certificatesv1.CertificateSigningRequest, machines []clusterv1.Machine, holders func() (*holders, error)) (waits bool, _ error) {
	log := ctrl.LoggerFrom(ctx).WithValues("CertificateSigningRequest", klog.KObj(request), "user", request.Spec.Username)
	node, unwatched, err := r.gather(ctx, cluster, request, machines, holders)
	if err != nil {
		return false, err
	}
	decision := Decide(request, identity, node)
	if decision.Action == Wait {
		log.V(2).Info("A request for a serving certificate waits", "reason", decision.Message)
		return unwatched, nil
	}
	return false, write(ctx, tenant, request, decision, "KOKServingCertificate")
}

// decideFirst decides on one request for a node's first client certificate and writes that.
func (r *Reconciler) decideFirst(ctx context.Context, tenant client.Client, cluster client.ObjectKey, request *certificatesv1.CertificateSigningRequest, machines []clusterv1.Machine, tokens *tokenOwners) (waits bool, _ error) {
	joining, err := r.joining(ctx, cluster, request, tokens)
	if err != nil {
		return false, err
	}
	decision := DecideFirst(request, joining, machines)
	if decision.Action == Wait {
		ctrl.LoggerFrom(ctx).Info("A request for a node's first certificate waits", "CertificateSigningRequest", klog.KObj(request), "reason", decision.Message)
		return true, nil
	}
	return false, write(ctx, tenant, request, decision, "KOKFirstCertificate")
}

// write writes a decision, with a reason that begins with prefix.
func write(ctx context.Context, tenant client.Client, request *certificatesv1.CertificateSigningRequest, decision Decision, prefix string) error {
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: prefix + "Approved",
		Message: decision.Message, LastUpdateTime: metav1.Now(),
	}
	if decision.Action == Deny {
		condition.Type, condition.Reason = certificatesv1.CertificateDenied, prefix+"Denied"
	}
	request.Status.Conditions = append(request.Status.Conditions, condition)
	err := tenant.SubResource("approval").Update(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// Another writer was faster. A request that is still pending is reconciled again.
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the decision %s on certificate signing request %s of the tenant: %w", decision.Action, request.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Decided on a request for a certificate", "CertificateSigningRequest", klog.KObj(request), "user", request.Spec.Username,
		"decision", decision.Action, "reason", decision.Message)
	return nil
}

// gather finds out what is known of the node that a request comes from. unwatched is true when no watch wakes the controller
// once more is known.
func (r *Reconciler) gather(ctx context.Context, cluster client.ObjectKey, request *certificatesv1.CertificateSigningRequest, machines []clusterv1.Machine, holders func() (*holders, error)) (_ Node, unwatched bool, _ error) {
	name, isNode := NodeName(request)
	if !isNode {
		return Node{}, false, nil
	}
	machine := machineOf(name, machines)
	if machine == nil {
		return Node{}, false, nil
	}
	node := Node{Machine: machine.Name, Addresses: machineAddresses(machine)}
	if !trustsNode(machine) {
		return node, false, nil
	}
	live, err := r.Tenants.GetUncachedClient(ctx, cluster)
	if err != nil {
		return node, false, fmt.Errorf("connect to the tenant: %w", err)
	}
	object := &corev1.Node{}
	if err := live.Get(ctx, client.ObjectKey{Name: name}, object); client.IgnoreNotFound(err) != nil {
		return node, false, fmt.Errorf("get Node %s of the tenant: %w", name, err)
	}
	node.Addresses = nodeAddresses(object)
	known, err := holders()
	if err != nil {
		return node, false, err
	}
	node.Others = known.besides(machine.Name, name)
	return node, true, nil
}
