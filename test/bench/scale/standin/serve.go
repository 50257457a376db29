package standin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/kubeapiserver"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// serve lets what stands in for the programs of a workload listen at the addresses of its Services, once.
func (h *Host) serve(ctx context.Context, workload client.Object) error {
	switch is := workload.(type) {
	case *appsv1.StatefulSet:
		var members []string
		for i := range int(*is.Spec.Replicas) {
			members = append(members, podName(is, i))
		}
		for i, name := range members {
			if err := h.serveAt(ctx, is, name, name, func(certificate tls.Certificate) *place {
				return &place{member: &member{names: members, ordinal: i, certificate: certificate}}
			}); err != nil {
				return err
			}
		}
	case *appsv1.DaemonSet:
		return h.serveAt(ctx, is, is.Name, kubeapiserver.ServerCert, func(certificate tls.Certificate) *place {
			return &place{api: &api{certificate: certificate, objects: map[string][]byte{}}}
		})
	}
	return nil
}

// serveAt listens at the address of a Service, with a certificate of the workload.
func (h *Host) serveAt(ctx context.Context, workload client.Object, service, certificate string, of func(tls.Certificate) *place) error {
	at := &corev1.Service{}
	if err := h.Cached.Get(ctx, client.ObjectKey{Namespace: workload.GetNamespace(), Name: service}, at); err != nil {
		return fmt.Errorf("find where %s is reached: %w", service, err)
	}
	address := net.JoinHostPort(at.Spec.ClusterIP, strconv.Itoa(int(at.Spec.Ports[0].Port)))
	if _, ok := h.served.Load(address); ok {
		return nil
	}
	secret := &corev1.Secret{}
	labels := workload.GetLabels()
	key := client.ObjectKey{Namespace: workload.GetNamespace(), Name: names.Certs(labels[names.ClusterNameLabel], labels[names.ComponentLabel])}
	if err := h.live.Get(ctx, key, secret); err != nil {
		return fmt.Errorf("read the certificate of %s: %w", service, err)
	}
	pair, err := tls.X509KeyPair(secret.Data[certificate+".crt"], secret.Data[certificate+".key"])
	if err != nil {
		return fmt.Errorf("read the certificate of %s: %w", service, err)
	}
	if err := h.listen(address, of(pair)); err != nil {
		return fmt.Errorf("stand in for %s: %w", service, err)
	}
	return nil
}

// serving counts handshakes, and has for each address the certificate of the place there.
func (h *Host) serving(handshakes *atomic.Int64, of func(*place) *tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			handshakes.Add(1)
			at, err := h.placeOf(hello.Conn.LocalAddr())
			if err != nil {
				return nil, err
			}
			return of(at), nil
		},
	}
}

// listen serves a place at an address.
func (h *Host) listen(address string, at *place) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	h.served.Store(address, at)
	if at.member != nil {
		go func() { _ = h.etcds.Serve(listener) }()
	} else {
		go func() { _ = h.apis.ServeTLS(listener, "", "") }()
	}
	return nil
}
