package untrusted

import (
	"fmt"
	"io"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// maxAnswer bounds one answer, in bytes. It has room for a list of 13,000 pods of 5 KiB each.
const maxAnswer = 64 << 20

// Bounded is a transport whose answers fit into memory. It refuses compressed answers, and answers of more than 64 MiB. It takes watches in
// protobuf alone: client-go bounds each event of such a watch, and does not bound the events of a watch in JSON.
func Bounded(inner http.RoundTripper) http.RoundTripper { return bounding{Around{inner}} }

type bounding struct{ Around }

// RoundTrip implements http.RoundTripper.
func (b bounding) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := b.Inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	watched := answer.StatusCode == http.StatusOK && IsWatch(request)
	if err := refuse(answer, watched); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	if !watched {
		answer.Body = &boundedBody{ReadCloser: answer.Body, left: maxAnswer}
	}
	return answer, nil
}

// refuse says why the manager does not read an answer; nil when it does.
func refuse(answer *http.Response, watched bool) error {
	if coding := answer.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return fmt.Errorf("the API server compresses its answer by %q, although nobody asked for that", coding)
	}
	if !watched {
		if answer.ContentLength > maxAnswer {
			return errTooLarge
		}
		return nil
	}
	format, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || format != runtime.ContentTypeProtobuf {
		return fmt.Errorf("the API server answers a watch in %q, and not in %s", answer.Header.Get("Content-Type"), runtime.ContentTypeProtobuf)
	}
	return nil
}

var errTooLarge = fmt.Errorf("the API server's answer has more than %d MiB", maxAnswer>>20)

// boundedBody is the body of an answer. A read fails once the body has no bytes left that it may have.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
