package load

import "net/http"

// Raw counts what came over the wire and was no answer, what client-go put right by itself included.
type Raw struct {
	// TooMany are answers with status 429, ServerErrors those with 5xx.
	TooMany, ServerErrors int
	// Broken are requests whose connection could not be opened or ended before an answer began, and those that their
	// client gave up.
	Broken int
}

// rawError is one of these; status is 0 for a broken connection.
type rawError struct {
	sent   Moment
	status int
}

// Raw counts raw errors of what was sent between two moments.
func (r *Requests) Raw(from, to Moment) Raw {
	r.lock.Lock()
	defer r.lock.Unlock()
	var raw Raw
	for _, e := range r.raw {
		if e.sent >= from && e.sent < to {
			raw = raw.Plus(RawOf(e.status))
		}
	}
	return raw
}

// RawOf counts what came once over the wire by its status, which is 0 for a broken connection.
func RawOf(status int) Raw {
	switch {
	case status == 0:
		return Raw{Broken: 1}
	case status == http.StatusTooManyRequests:
		return Raw{TooMany: 1}
	case status >= http.StatusInternalServerError:
		return Raw{ServerErrors: 1}
	}
	return Raw{}
}

// Plus is the sum of both.
func (r Raw) Plus(other Raw) Raw {
	return Raw{r.TooMany + other.TooMany, r.ServerErrors + other.ServerErrors, r.Broken + other.Broken}
}

// roundTripper is a function that is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// counting counts raw errors of next. client-go is above it: each time that it sends a request again is seen.
func (r *Requests) counting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		sent := Now()
		response, err := next.RoundTrip(request)
		status := 0
		if err == nil {
			status = response.StatusCode
		}
		if RawOf(status) != (Raw{}) {
			r.lock.Lock()
			defer r.lock.Unlock()
			r.raw = append(r.raw, rawError{sent, status})
		}
		return response, err
	})
}
