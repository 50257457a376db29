package oci

import (
	"archive/tar"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var architectures = []string{"amd64", "arm64"}

// write writes a layout with two images, whose programs are in files made anew.
func write(t *testing.T, content string) (folder string, digests Digests) {
	t.Helper()
	folder = t.TempDir()
	var images []Image
	for _, title := range []string{"first", "second"} {
		image := Image{Name: title, Programs: map[string]string{}, Labels: map[string]string{"org.opencontainers.image.version": "v1.2.3"}, Created: time.Unix(1e9, 0)}
		for _, architecture := range architectures {
			file := filepath.Join(t.TempDir(), title)
			if err := os.WriteFile(file, []byte(content+architecture), 0o700); err != nil {
				t.Fatal(err)
			}
			image.Programs[architecture] = file
		}
		images = append(images, image)
	}
	digests, err := Write(folder, "v1.2.3", architectures, images)
	if err != nil {
		t.Fatal(err)
	}
	return folder, digests
}

func TestTheSameProgramsGiveTheSameDigestsAndLayout(t *testing.T) {
	folder, digests := write(t, "a program for ")
	again, same := write(t, "a program for ")
	_, other := write(t, "another program for ")
	if !maps.Equal(digests, same) || digests["first"] == other["first"] || digests["first"] == digests["second"] {
		t.Errorf("%v, again %v, of another program %v", digests, same, other)
	}
	for _, layout := range []string{folder, again} {
		if err := Sign(layout, "registry.example.com/kok", "v1.2.3", digests, signed); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := files(t, folder), files(t, again); !maps.Equal(a, b) {
		t.Errorf("the layouts differ:\n%v\n%v", slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
	}
}

// files are the contents of all files below a folder.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, folder)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAnImageHasItsProgramAndCertificatesAndNoRoot(t *testing.T) {
	folder, digests := write(t, "a program for ")
	r := serve(t)
	if err := r.push(t, folder, "secret"); err != nil {
		t.Fatal(err)
	}
	for _, architecture := range architectures {
		image := r.pull(t, "first@"+digests["first"].String(), architecture)
		if err := validate.Image(image); err != nil {
			t.Error(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != nonRoot || !slices.Equal(config.Config.Entrypoint, []string{"/first"}) || config.Architecture != architecture || config.OS != "linux" {
			t.Errorf("%s: %+v", architecture, config)
		}
		content := unpack(t, image)
		if content["first"] != "a program for "+architecture {
			t.Errorf("the program for %s is %q", architecture, content["first"])
		}
		block, _ := pem.Decode([]byte(content[certificates]))
		if block == nil || block.Type != "CERTIFICATE" || strings.Count(content[certificates], "BEGIN") < 50 {
			t.Errorf("%s has %.100q", certificates, content[certificates])
		}
	}
}

// unpack gives the files of all layers.
func unpack(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, layer := range layers {
		reader, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for archive := tar.NewReader(reader); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			found[header.Name] = string(content)
		}
	}
	return found
}

func TestAPushSaysWhatIsWrong(t *testing.T) {
	folder, _ := write(t, "a program for ")
	r := serve(t)
	for name, test := range map[string]struct {
		push func() error
		want string
	}{
		"a wrong password": {func() error { return r.push(t, folder, "guess") }, "has to have a user and a password for 127.0.0.1"},
		"no images":        {func() error { return r.push(t, t.TempDir(), "secret") }, "make release writes them"},
		"a registry without TLS": {func() error {
			var heard atomic.Int32
			plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) }))
			defer plain.Close()
			transport, err := Transport("")
			if err != nil {
				return err
			}
			err = Push(t.Context(), folder, strings.TrimPrefix(plain.URL, "http://"), transport, authn.DefaultKeychain, func(string) {})
			if heard.Load() > 0 {
				t.Errorf("it was asked %d times without TLS", heard.Load())
			}
			return err
		}, "is asked by TLS alone"},
		"a registry that is not trusted": {func() error {
			transport, err := Transport("")
			if err != nil {
				return err
			}
			return Push(t.Context(), folder, r.host, transport, authn.DefaultKeychain, func(string) {})
		}, "CA_FILE=... names the file"},
		"a file without certificates": {func() error {
			file := filepath.Join(t.TempDir(), "ca.crt")
			if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
				return err
			}
			_, err := Transport(file)
			return err
		}, "has no certificate in PEM format"},
		"a name that is none": {func() error {
			return Push(t.Context(), folder, "REGISTRY/Kok", http.DefaultTransport, authn.DefaultKeychain, func(string) {})
		}, "REGISTRY=REGISTRY/Kok"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.push(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v does not say %q", err, test.want)
			}
		})
	}
}

func TestAPushGoesOnWhereItWas(t *testing.T) {
	folder, _ := write(t, "a program for ")
	whole := serve(t)
	if err := whole.push(t, folder, "secret"); err != nil {
		t.Fatal(err)
	}
	r := serve(t)
	for room := range whole.uploads() {
		r.give(room)
		if err := r.push(t, folder, "secret"); err == nil {
			t.Fatalf("a registry with room for %d blobs took all", room)
		}
		if got := r.uploads(); got != room {
			t.Fatalf("a registry with room for %d blobs has been sent %d", room, got)
		}
	}
	r.give(whole.uploads())
	for range 2 {
		if err := r.push(t, folder, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := r.uploads(), whole.uploads(); want < 4 || got != want {
		t.Errorf("%d blobs were sent in many pushes, and %d in one", got, want)
	}
}

// served is a registry with TLS and a password.
type served struct {
	host, authorities string
	// stored are the blobs that it took, in their order, with those that it took again, and room is for how many it has room.
	sync.Mutex
	stored []string
	room   int
}

// uploads is how many blobs it took.
func (r *served) uploads() int {
	r.Lock()
	defer r.Unlock()
	return len(r.stored)
}

// give has it take so many blobs.
func (r *served) give(room int) {
	r.Lock()
	defer r.Unlock()
	r.room = room
}

func serve(t *testing.T) *served {
	t.Helper()
	r := &served{room: math.MaxInt}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if _, password, _ := request.BasicAuth(); password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"wrong password"}]}`, http.StatusUnauthorized)
			return
		}
		if request.Method == http.MethodPut && strings.Contains(request.URL.Path, "/blobs/uploads/") {
			r.Lock()
			defer r.Unlock()
			if len(r.stored) == r.room {
				http.Error(w, `{"errors":[{"code":"DENIED","message":"no room is left"}]}`, http.StatusInsufficientStorage)
				return
			}
			r.stored = append(r.stored, request.URL.Query().Get("digest"))
		}
		images.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "https://")
	r.authorities = filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(r.authorities, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// login writes docker's configuration file, and has it found.
func (r *served) login(t *testing.T, password string) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("DOCKER_CONFIG", folder)
	config := `{"auths":{"` + r.host + `":{"username":"somebody","password":"` + password + `"}}}`
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *served) push(t *testing.T, folder, password string) error {
	t.Helper()
	r.login(t, password)
	transport, err := Transport(r.authorities)
	if err != nil {
		t.Fatal(err)
	}
	return Push(t.Context(), folder, r.host+"/kok", transport, authn.DefaultKeychain, func(string) {})
}

func (r *served) pull(t *testing.T, reference, architecture string) v1.Image {
	t.Helper()
	r.login(t, "secret")
	transport, err := Transport(r.authorities)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(r.host + "/kok/" + reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(parsed, remote.WithTransport(transport), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture})) // a signature has none
	if err != nil {
		t.Fatal(err)
	}
	return image
}
