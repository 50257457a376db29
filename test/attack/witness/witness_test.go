package witness

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestWhatClientsShowIsCountedByClientAndCredential(t *testing.T) {
	s := &Credentials{}
	if s.Count(CoreManager, "Bearer a") != 0 || len(s.Besides("Bearer a")) != 0 {
		t.Error("something was shown before the first request")
	}
	for _, one := range []struct{ agent, credential string }{
		{"manager/v1 " + CoreManager + " (linux/amd64)", "Bearer a"},
		{"manager/v1 " + CoreManager + " (linux/amd64)", "Bearer a"},
		{"manager/v1 " + CoreManager + " (linux/amd64)", "Bearer which-is-a-very-long-one"},
		{"curl", "Bearer a"},
		{"", ""},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		request.Header.Set("User-Agent", one.agent)
		if one.credential != "" {
			request.Header.Set("Authorization", one.credential)
		}
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, request)
		if answer.Code != http.StatusForbidden {
			t.Errorf("%+v is answered %d", one, answer.Code)
		}
	}
	if count := s.Count(CoreManager, "Bearer a"); count != 2 {
		t.Errorf("the core manager showed it %d times", count)
	}
	want := []string{` showed ""`, CoreManager + ` showed "Bearer which-is-a-ve"`}
	if others := s.Besides("Bearer a"); !slices.Equal(others, want) {
		t.Errorf("besides there are %q, want %q", others, want)
	}
}
