package client

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// server keeps one ConfigMap, and answers what trouble says for as long as it says something.
type server struct {
	lock    sync.Mutex
	stored  corev1.ConfigMap
	trouble func(w http.ResponseWriter) bool
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if r.Method != http.MethodPost && s.trouble(w) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPatch {
		_ = json.Unmarshal(body, &s.stored)
	}
	s.stored.APIVersion, s.stored.Kind = "v1", "ConfigMap"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.stored)
}

func ask(t *testing.T, trouble func(w http.ResponseWriter) bool, until func(Result) bool) Result {
	t.Helper()
	g := NewWithT(t)
	s := httptest.NewUnstartedServer(&server{trouble: trouble})
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	// The certificate of the test server is for example.com.
	address := strings.TrimPrefix(s.URL, "https://")
	c, err := Start(t.Context(), Options{
		Config:    &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: authority}},
		Addresses: []string{address}, Namespace: "e2e", Pause: time.Millisecond, serverName: "example.com",
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() bool { return until(c.Result()) }).WithTimeout(20 * time.Second).Should(BeTrue())
	return c.Stop()
}

func TestRequestsThatSucceed(t *testing.T) {
	g := NewWithT(t)
	result := ask(t, func(http.ResponseWriter) bool { return false }, func(r Result) bool { return r.Asked > 20 })
	g.Expect(result.Failed).To(BeEmpty())
	g.Expect(result.Answers).To(HaveLen(1))
	g.Expect(result.Answers[http.StatusOK]).To(BeNumerically(">=", result.Asked))
}

func TestRetryAfterIsHandledAndCounted(t *testing.T) {
	g := NewWithT(t)
	times := 0
	result := ask(t, func(w http.ResponseWriter) bool {
		if times++; times > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}, func(r Result) bool { return r.Asked > 5 })
	g.Expect(result.Failed).To(BeEmpty())
	g.Expect(result.Answers).To(HaveKeyWithValue(http.StatusTooManyRequests, 1))
}

func TestRequestsThatFail(t *testing.T) {
	g := NewWithT(t)
	result := ask(t, func(w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}, func(r Result) bool { return len(r.Failed) > 3 })
	g.Expect(result.Answers).To(HaveKey(http.StatusInternalServerError))
}
