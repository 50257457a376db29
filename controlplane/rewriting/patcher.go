package rewriting

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metadataAlone asks API servers to answer a write with the metadata of the object alone.
const metadataAlone = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// patcher patches objects of a kind, and can do nothing else. It does not decode the answer.
type patcher struct {
	client.Client
	rest rest.Interface
	kind *kind
}

// Patch implements client.Writer.
func (p *patcher) Patch(ctx context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	request := p.rest.Patch(patch.Type()).AbsPath(pathOf(p.kind.GroupVersion())...).Resource(p.kind.Resource)
	if p.kind.namespaced {
		request = request.Namespace(object.GetNamespace())
	}
	return request.Name(object.GetName()).SetHeader("Accept", metadataAlone).Body(data).Do(ctx).Error()
}

// GroupVersionKindFor implements client.Client.
func (p *patcher) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return object.GetObjectKind().GroupVersionKind(), nil
}

// maxAnswer bounds what is read of one answer, in bytes. The metadata of an object and the kinds of an API version are smaller: API servers
// take objects of 1.5 MiB.
const maxAnswer = 4 << 20

// bounded bounds answers more tightly than the guard of the tenant does. A larger answer fails, and does not count against the tenant.
func bounded(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		answer, err := inner.RoundTrip(request)
		if err == nil {
			answer.Body = &boundedBody{answer.Body, maxAnswer}
		}
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the tenant's answer has more than %d MiB", maxAnswer>>20)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
