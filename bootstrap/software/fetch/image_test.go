package fetch

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// artifacts is a registry with the artifact software/kubelet: v1 has the file, index has it for this architecture, other
// does not have it.
func artifacts(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	server := httptest.NewServer(wrap(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	with := func(layer string) v1.Image {
		image, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte("readme"), types.OCILayer), static.NewLayer([]byte(layer), types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: with("of another architecture"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: other}}},
		mutate.IndexAddendum{Add: with(content), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	push := func(tag string, write func(name.Reference) error) {
		reference, err := name.ParseReference(address.Host + "/software/kubelet:" + tag)
		if err == nil {
			err = write(reference)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	login := remote.WithAuth(&authn.Basic{Username: "machine", Password: "s3cret"})
	push("v1", func(r name.Reference) error { return remote.Write(r, with(content), login) })
	push("other", func(r name.Reference) error { return remote.Write(r, with("another"), login) })
	push("index", func(r name.Reference) error { return remote.WriteIndex(r, index, login) })
	return server.URL
}

func open(h http.Handler) http.Handler { return h }

func (f *fetcher) image(reference string) error {
	return f.All(f.t.Context(), []File{{Component: "kubelet", Archive: bootstrapv1.SoftwareArchive{Image: reference, SHA256: digest(content)}}})
}

func TestTheLayerOfAnArtifactIsTheFile(t *testing.T) {
	address := artifacts(t, open)
	for name, c := range map[string]struct{ tag, reason string }{
		"of an image":          {":v1", ""},
		"of an index":          {":index", ""},
		"unless it has none":   {":other", "has no layer with the SHA-256"},
		"unless it is not":     {":none", "MANIFEST_UNKNOWN"},
		"unless it has no tag": {"", "could not parse reference"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFetcher(t, mirror("registry.example.com/", true, address))
			err := f.image("registry.example.com/software/kubelet" + c.tag)
			switch {
			case c.reason == "" && err != nil:
				t.Error(err)
			case c.reason == "":
				f.got()
			case software.ResultOf(err).Reason != software.NoSource || !strings.Contains(err.Error(), c.reason):
				t.Error(err)
			}
		})
	}
}

func TestARegistryThatMisbehavesMakesTheNextOneTheSource(t *testing.T) {
	isBlob := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/sha256:"+digest(content))
	}
	for name, c := range map[string]struct {
		wrap   func(http.Handler) http.Handler
		reason string
	}{
		"it lies about the layer": {func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if isBlob(r) {
					_, _ = io.WriteString(w, "evil")
					return
				}
				h.ServeHTTP(w, r)
			})
		}, "not the one that is wanted"},
		"it stalls": {func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if isBlob(r) {
					<-r.Context().Done()
					return
				}
				h.ServeHTTP(w, r)
			})
		}, stalls},
		"its manifest has no end": {func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/manifests/v1") {
					h.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
				for block := make([]byte, 1<<16); ; {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			})
		}, "more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := artifacts(t, c.wrap)
			f := newFetcher(t, mirror("registry.example.com/", true, bad, artifacts(t, open)))
			f.expect(c.reason)
			if err := f.image("registry.example.com/software/kubelet:v1"); err != nil {
				t.Fatal(err)
			}
			f.got()
			f.avoidedOnly(bad+"/software/kubelet:v1: ", c.reason)
		})
	}
}

func TestALayerThatBrokeOffGoesOn(t *testing.T) {
	var ranges []string
	address := artifacts(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, digest(content)) {
				h.ServeHTTP(w, r)
				return
			}
			if ranges = append(ranges, r.Header.Get("Range")); len(ranges) == 1 {
				w.Header().Set("Content-Length", "140000")
				_, _ = io.WriteString(w, content[:5000])
				return
			}
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
		})
	})
	f := newFetcher(t, mirror("registry.example.com/", true, address))
	if err := f.image("registry.example.com/software/kubelet:v1"); err != nil {
		t.Fatal(err)
	}
	f.got()
	if len(ranges) != 2 || ranges[1] != "bytes=5000-" {
		t.Errorf("asked for %q", ranges)
	}
}

func TestTheRegistryOfAMirrorIsToldItsPassword(t *testing.T) {
	address := artifacts(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "machine" || password != "s3cret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	m := mirror("registry.example.com/", true, address)
	m.Endpoints[0].Username, m.Endpoints[0].Password = "machine", "s3cret"
	f := newFetcher(t, m)
	if err := f.image("registry.example.com/software/kubelet:v1"); err != nil {
		t.Fatal(err)
	}
	f.got()
	m.Endpoints[0].Password = "wrong-one"
	f = newFetcher(t, m)
	if err := f.image("registry.example.com/software/kubelet:v1"); err == nil || strings.Contains(err.Error(), "wrong-one") {
		t.Error(err)
	}
}

func TestARegistryWithoutSchemeIsAskedByHTTPSAlone(t *testing.T) {
	address := artifacts(t, open)
	s, err := newSource(strings.TrimPrefix(address, "http://")+"/software/kubelet:v1", true)
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t)
	guard, err := f.transport(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := blob(t.Context(), s, guard, digest(content)); err == nil || !strings.Contains(err.Error(), errInsecure.Error()) {
		t.Errorf("a registry that has no TLS is used: %v", err)
	}
}
