package untrusted

import (
	"fmt"
	"net/http"
)

// RedirectError is in place of an answer that leads to another address. It says nothing of that address or of the
// answer, as the server chose both.
type RedirectError struct {
	// Code is the answer's HTTP status.
	Code int
}

// Error implements error.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("the server answered with a redirect (HTTP status %d), which is not followed", e.Code)
}

// WithoutRedirects is a transport that fails where it is led to another address: each hop would get the credentials,
// wherever it is, and the server could have the manager send requests to whatever the manager alone reaches.
func WithoutRedirects(inner http.RoundTripper) http.RoundTripper { return noRedirects{Around{inner}} }

type noRedirects struct{ Around }

// RoundTrip implements http.RoundTripper.
func (n noRedirects) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := n.Inner.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusMultipleChoices && answer.StatusCode < http.StatusBadRequest {
		_ = answer.Body.Close()
		return nil, &RedirectError{Code: answer.StatusCode}
	}
	return answer, nil
}
