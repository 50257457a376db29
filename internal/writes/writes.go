// Package writes logs and counts every write of a manager that an API server accepted. It wraps clients, so that code which
// writes need not do so. Reads pass through. The content of objects is never logged.
package writes

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Verbosity is the verbosity at which writes are logged.
const Verbosity = 2

// Clusters that a manager writes to, as the log and the metric call them.
const (
	Management = "management"
	Host       = "host"
	Tenant     = "tenant"
)

var total = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "kok_writes_total",
	Help: "Writes that API servers took, by the cluster, the kind of the object and the verb.",
}, []string{"cluster", "kind", "verb"})

func init() { metrics.Registry.MustRegister(total) }

// NewClient makes a manager's client, which writes to the management cluster.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return Tell(c, Management), nil
}

// Because makes log lines of writes with the context name the step that they are for.
func Because(ctx context.Context, step string) context.Context {
	return ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("step", step))
}

// Tell wraps a client of one of the clusters above.
func Tell(c client.Client, cluster string) client.Client {
	return &teller{Client: c, writer: writer{cluster: cluster, of: c}}
}

// writer tells of writes to one cluster.
type writer struct {
	cluster string
	of      client.Client
}

// named is what an object and an apply configuration have in common.
type named interface {
	GetNamespace() string
	GetName() string
}

// tell logs and counts a write. A failed request is no write: its error names it, and rest_client_requests_total counts it.
func (w writer) tell(ctx context.Context, verb, subresource string, object any, err error) error {
	if err != nil {
		return err
	}
	kind, key := w.kindOf(object), klog.ObjectRef{}
	if object, ok := object.(named); ok {
		key = klog.KRef(object.GetNamespace(), object.GetName())
	}
	total.WithLabelValues(w.cluster, kind, verb).Inc()
	values := []any{"cluster", w.cluster, "verb", verb, "kind", kind, "object", key}
	if subresource != "" {
		values = append(values, "subresource", subresource)
	}
	ctrl.LoggerFrom(ctx).V(Verbosity).Info("Wrote", values...)
	return nil
}

func (w writer) kindOf(object any) string {
	if object, ok := object.(runtime.Object); ok {
		if gvk, err := w.of.GroupVersionKindFor(object); err == nil {
			return gvk.Kind
		}
	}
	if configuration, ok := object.(interface{ GetKind() string }); ok {
		return configuration.GetKind()
	}
	return "unknown"
}

type teller struct {
	client.Client
	writer
}

// Create implements client.Writer.
func (t *teller) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return t.tell(ctx, "create", "", object, t.Client.Create(ctx, object, options...))
}

// Delete implements client.Writer.
func (t *teller) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return t.tell(ctx, "delete", "", object, t.Client.Delete(ctx, object, options...))
}

// Update implements client.Writer.
func (t *teller) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return t.tell(ctx, "update", "", object, t.Client.Update(ctx, object, options...))
}

// Patch implements client.Writer.
func (t *teller) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return t.tell(ctx, "patch", "", object, t.Client.Patch(ctx, object, patch, options...))
}

// Apply implements client.Writer.
func (t *teller) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	return t.tell(ctx, "apply", "", object, t.Client.Apply(ctx, object, options...))
}

// DeleteAllOf implements client.Writer.
func (t *teller) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	return t.tell(ctx, "delete", "", object, t.Client.DeleteAllOf(ctx, object, options...))
}

// Status implements client.StatusClient.
func (t *teller) Status() client.SubResourceWriter { return t.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (t *teller) SubResource(subresource string) client.SubResourceClient {
	return &subresourceTeller{SubResourceClient: t.Client.SubResource(subresource), writer: t.writer, subresource: subresource}
}

type subresourceTeller struct {
	client.SubResourceClient
	writer
	subresource string
}

// Create implements client.SubResourceWriter.
func (t *subresourceTeller) Create(ctx context.Context, object, content client.Object, options ...client.SubResourceCreateOption) error {
	return t.tell(ctx, "create", t.subresource, object, t.SubResourceClient.Create(ctx, object, content, options...))
}

// Update implements client.SubResourceWriter.
func (t *subresourceTeller) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return t.tell(ctx, "update", t.subresource, object, t.SubResourceClient.Update(ctx, object, options...))
}

// Patch implements client.SubResourceWriter.
func (t *subresourceTeller) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return t.tell(ctx, "patch", t.subresource, object, t.SubResourceClient.Patch(ctx, object, patch, options...))
}

// Apply implements client.SubResourceWriter.
func (t *subresourceTeller) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return t.tell(ctx, "apply", t.subresource, object, t.SubResourceClient.Apply(ctx, object, options...))
}
