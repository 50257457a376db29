package untrusted

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// maxAnswer is the most that is read of one answer: a list of 13,000 pods has 5 KiB for each.
	maxAnswer = 64 << 20
	// protobuf is how API servers encode objects of their own kinds when they are asked for it. client-go bounds each event of such a watch,
	// and no event of one in JSON.
	protobuf = "application/vnd.kubernetes.protobuf"
)

// Bounded is a transport whose answers fit into memory: they are not compressed, have at most 64 MiB, and an event of a watch has what client-go
// takes at most. Requests have to ask for watches in protobuf, and for no compression.
func Bounded(inner http.RoundTripper) http.RoundTripper { return bounding{inner} }

type bounding struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounding) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := b.inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if answer.Body, err = boundedBody(request, answer); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// WrappedRoundTripper lets client-go find the transport that is wrapped.
func (b bounding) WrappedRoundTripper() http.RoundTripper { return b.inner }

// CloseIdleConnections lets http.Client.CloseIdleConnections reach the transport that is wrapped.
func (b bounding) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(b.inner) }

// boundedBody is the body of an answer within its bounds. With an error it is the body as it came.
func boundedBody(request *http.Request, answer *http.Response) (io.ReadCloser, error) {
	if coding := answer.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return answer.Body, fmt.Errorf("the API server compresses its answer by %q, although nobody asked for that", coding)
	}
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	if err == nil && watch && answer.StatusCode == http.StatusOK {
		kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
		if err != nil || kind != protobuf {
			return answer.Body, fmt.Errorf("the API server answers a watch in %q, and not in %s", answer.Header.Get("Content-Type"), protobuf)
		}
		return answer.Body, nil
	}
	if answer.ContentLength > maxAnswer {
		return answer.Body, errTooLarge
	}
	return &boundedReader{ReadCloser: answer.Body, left: maxAnswer}, nil
}

var errTooLarge = fmt.Errorf("the API server's answer has more than %d MiB", maxAnswer>>20)

// boundedReader fails once more than so much was read.
type boundedReader struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
