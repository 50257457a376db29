package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/load"
)

const (
	// value is the key of a ConfigMap's data that is compared.
	value = "value"
	// One key of readEvery is read back, one of freshEvery goes over new connections.
	readEvery, freshEvery = 5, 10
)

// put writes the i-th key, and reads it back when it is its turn.
func (j *Journal) put(ctx context.Context, i int) {
	api := j.kept
	if i%freshEvery == 0 {
		api = j.fresh
	}
	keys, name := api.CoreV1().ConfigMaps(j.options.Namespace), j.name(i)
	if j.write(ctx, keys, name, rand.Text()) && i%readEvery == 0 {
		j.read(ctx, keys, name)
	}
}

// write reports whether it was acknowledged.
func (j *Journal) write(ctx context.Context, keys corev1client.ConfigMapInterface, name, text string) bool {
	began := time.Now()
	_, err := keys.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: j.options.Name}}, Data: map[string]string{value: text},
	}, metav1.CreateOptions{})
	took := time.Since(began)
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.answered("write of "+name, began, took, err) {
		j.acknowledged[name] = text
		// Answers that came later may have been noted before.
		if now := began.Add(took); now.After(j.advanced) {
			j.still, j.advanced = j.stillUntil(now), now
		}
	}
	return err == nil
}

// read compares a key that was acknowledged.
func (j *Journal) read(ctx context.Context, keys corev1client.ConfigMapInterface, name string) {
	began := time.Now()
	key, err := keys.Get(ctx, name, metav1.GetOptions{})
	took := time.Since(began)
	j.lock.Lock()
	defer j.lock.Unlock()
	if !j.answered("read of "+name, began, took, err) {
		return
	}
	j.reads++
	if key.Data[value] != j.acknowledged[name] {
		j.other[name] = key.Data[value]
	}
}

// answered notes what came of a request; its caller has the lock.
func (j *Journal) answered(what string, began time.Time, took time.Duration, err error) bool {
	if err != nil {
		j.failed = append(j.failed, fmt.Sprintf("%s: %s failed after %s: %v", began.UTC().Format("15:04:05.000"), what, took.Round(time.Millisecond), err))
		return false
	}
	j.slowest = max(j.slowest, took)
	return true
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// counting counts raw errors of next. client-go is above it: each time that it sends a request again is seen.
func (j *Journal) counting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		status := 0
		if err == nil {
			status = response.StatusCode
		}
		raw, told := load.RawOf(status), ""
		if raw.ServerErrors > 0 {
			told = describe(request, response)
		}
		j.lock.Lock()
		defer j.lock.Unlock()
		if j.raw = j.raw.Plus(raw); told != "" && len(j.serverErrors) < mostServerErrors {
			j.serverErrors = append(j.serverErrors, told)
		}
		return response, err
	})
}

const (
	// mostServerErrors is how many answers 5xx are told, mostTold how much of each, in bytes.
	mostServerErrors = 5
	mostTold         = 300
)

// describe tells of an answer, whose body stays to be read.
func describe(request *http.Request, response *http.Response) string {
	start, _ := io.ReadAll(io.LimitReader(response.Body, mostTold))
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), response.Body), response.Body}
	return fmt.Sprintf("%s %s: %s: %s", request.Method, request.URL.Path, response.Status, start)
}
