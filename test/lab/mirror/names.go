package mirror

import (
	"net/http"
	"slices"
	"strings"
)

// Names are those of upstream's servers that workers and administrators ask.
var Names = []string{"dl.k8s.io", "github.com", "registry.k8s.io", "ghcr.io"}

// byName finds what is asked of one of upstream's servers in the folder of its name. A registry has no folder.
func byName(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(Names, r.Host) && !strings.HasPrefix(r.URL.Path, "/v2/") {
			r.URL.Path = "/" + r.Host + r.URL.Path
			r.URL.RawPath = ""
		}
		handler.ServeHTTP(w, r)
	})
}
