package addresses

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/revision"
)

// Record keeps where a control plane is reached, as the host cluster gave it the first time: certificates, etcd members, kubeconfigs and
// workers name it.
type Record struct {
	// Services are the cluster IPs of Services, by name.
	Services map[string]string
	// Exposure is where API servers on the pod network are reached.
	Exposure components.Exposure
}

// Read reads the record of a tenant. The record is empty until the host cluster has given an address.
func Read(ctx context.Context, revisions *revision.Store, tenant client.ObjectKey) (Record, error) {
	objects, err := revisions.Newest(ctx, tenant, names.Services)
	if err != nil {
		return Record{}, err
	}
	record := Record{Services: map[string]string{}}
	for _, object := range objects {
		if service, ok := object.(*corev1.Service); ok {
			record.Services[service.Name] = service.Spec.ClusterIP
			record.Exposure = cmp.Or(record.Exposure, readExposure(service))
		}
	}
	return record, nil
}

// Write keeps the record as a rendering. The store writes a rendering only when it differs from the newest one.
func (r Record) Write(ctx context.Context, revisions *revision.Store, tenant client.ObjectKey) error {
	_, err := revisions.Rendering(ctx, tenant, names.Services, r.hash(), time.Time{}, func() ([]client.Object, error) {
		var services []client.Object
		for _, name := range slices.Sorted(maps.Keys(r.Services)) {
			service := &corev1.Service{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.ServiceSpec{ClusterIP: r.Services[name]},
			}
			if name == names.APIService(tenant.Name) {
				writeExposure(service, r.Exposure)
			}
			services = append(services, service)
		}
		return services, nil
	})
	return err
}

func (r Record) hash() string {
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(r.Services)) {
		fmt.Fprintf(hash, "%s=%s\n", name, r.Services[name])
	}
	if r.Exposure != (components.Exposure{}) {
		fmt.Fprintf(hash, "%+v\n", r.Exposure)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// writeExposure keeps an exposure in the record of a Service. readExposure reads it.
func writeExposure(service *corev1.Service, exposed components.Exposure) {
	if exposed == (components.Exposure{}) {
		return
	}
	service.Spec.Ports = []corev1.ServicePort{{Port: exposed.Port}}
	if exposed.Address != "" {
		service.Spec.ExternalIPs = []string{exposed.Address}
	}
}

func readExposure(service *corev1.Service) components.Exposure {
	var exposed components.Exposure
	for _, port := range service.Spec.Ports {
		exposed.Port = port.Port
	}
	for _, address := range service.Spec.ExternalIPs {
		exposed.Address = address
	}
	return exposed
}
