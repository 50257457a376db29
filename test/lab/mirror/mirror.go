// Package mirror is the mirror of a data centre without the internet, on the lab's router: it has what machines install
// themselves from, at the paths that upstream publishes it at, a signed repository of apt, and a registry with the images of
// workers. Whoever tests can have it misbehave.
package mirror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

// Ports of the first mirror on the router; the next one has the next two.
const (
	httpsPort = 8443
	httpPort  = 8080
)

// ports is how many ports mirrors are tried on.
const ports = 10

// Content is what mirrors have.
type Content struct {
	// Upstream are the files of other projects.
	Upstream *artifacts.Upstream
	// Release is the folder of files of this project's release, and ReleaseVersion its version.
	Release, ReleaseVersion string
	// Repository is a repository of apt; there is none if it is nil.
	Repository *Repository
	// Files are those that Upstream lacks: where they are, by their URLs.
	Files map[string]string
	// Images are pushed to the registry.
	Images []artifacts.Image
	// Scratch is a folder for what the registry stores; that of temporary files if it is empty.
	Scratch string
}

// Mirror is one server. Two of them are two endpoints of one site.
type Mirror struct {
	// URL is where the files of a server are, in a folder of its name; PlainURL is the same without TLS, for apt.
	URL, PlainURL string
	// CABundle is the lab's authority, as PEM.
	CABundle string

	content Content
	faults  faults
	servers []*http.Server
	client  *http.Client
	folder  string
}

// Start starts a mirror on the router of a lab that is up. It runs in this process until it is closed.
func Start(ctx context.Context, l *lab.Lab, content Content) (*Mirror, error) {
	return startOn(ctx, l, portRange{httpsPort, ports}, portRange{httpPort, ports}, content)
}

// StartAsUpstream starts a mirror that takes the place of upstream's servers: whoever is told that Names are at its address finds
// their files and images there, by their own URLs, at the port of HTTPS.
func StartAsUpstream(ctx context.Context, l *lab.Lab, content Content) (*Mirror, error) {
	return startOn(ctx, l, portRange{443, 1}, portRange{httpPort, ports}, content, Names...)
}

// portRange is so many ports from one on.
type portRange struct{ from, count uint16 }

// startOn is Start with the first ports that nobody has of two ranges, and a certificate that is for names as well.
func startOn(ctx context.Context, l *lab.Lab, https, http portRange, content Content, names ...string) (*Mirror, error) {
	serving, authority, err := l.RouterCertificate(names...)
	if err != nil {
		return nil, err
	}
	encrypted, err := listen(l, https)
	if err != nil {
		return nil, err
	}
	plain, err := listen(l, http)
	if err != nil {
		return nil, errors.Join(err, encrypted.Close())
	}
	return start(ctx, encrypted, plain, serving, authority, content)
}

// listen takes the first port that nobody has.
func listen(l *lab.Lab, ports portRange) (net.Listener, error) {
	var errs []error
	for port := ports.from; port < ports.from+ports.count; port++ {
		listener, err := l.ListenOnRouter(port)
		if err == nil {
			return listener, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// start serves on listeners, which are closed with the mirror.
func start(ctx context.Context, encrypted, plain net.Listener, serving tls.Certificate, authority []byte, content Content) (*Mirror, error) {
	m := &Mirror{
		URL: "https://" + encrypted.Addr().String(), PlainURL: "http://" + plain.Addr().String(),
		CABundle: string(authority), content: content,
	}
	m.client = clientOf(authority)
	handler, err := m.handler()
	if err != nil {
		return nil, errors.Join(err, encrypted.Close(), plain.Close())
	}
	for _, listener := range []net.Listener{tls.NewListener(encrypted, &tls.Config{Certificates: []tls.Certificate{serving}, MinVersion: tls.VersionTLS12}), plain} {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
		m.servers = append(m.servers, server)
		go func() { _ = server.Serve(listener) }() // It ends with Close.
	}
	if err := m.push(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// clientOf trusts an authority alone.
func clientOf(authority []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
}

// Close ends the mirror: who asks it has nobody to talk to.
func (m *Mirror) Close() error {
	var errs []error
	for _, server := range m.servers {
		errs = append(errs, server.Close())
	}
	m.client.CloseIdleConnections()
	return errors.Join(append(errs, os.RemoveAll(m.folder))...)
}

// handler serves files by their paths, and images.
func (m *Mirror) handler() (http.Handler, error) {
	folder, err := os.MkdirTemp(m.content.Scratch, "kok-mirror-")
	if err != nil {
		return nil, err
	}
	m.folder = folder
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(m.content.Upstream.Folder)))
	own := releasePath(m.content.ReleaseVersion)
	mux.Handle("/"+own, http.StripPrefix("/"+own, http.FileServer(http.Dir(m.content.Release))))
	if m.content.Repository != nil {
		mux.Handle("/apt/", http.StripPrefix("/apt/", http.FileServer(http.Dir(m.content.Repository.folder))))
	}
	images := registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(filepath.Join(folder, "blobs"))), registry.Logger(log.New(io.Discard, "", 0)))
	mux.Handle("/v2/", images)
	for url, file := range m.content.Files {
		mux.HandleFunc(PathOf(url), func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	}
	return byName(m.faults.wrap(mux)), nil
}

// registry is the address of the mirror's registry.
func (m *Mirror) registry() string { return m.URL[len("https://"):] }

// push fills the registry.
func (m *Mirror) push(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(m.folder, "blobs"), 0o755); err != nil {
		return err
	}
	at, err := name.NewRegistry(m.registry())
	if err != nil {
		return err
	}
	for _, image := range m.content.Images {
		if err := image.Push(at, remote.WithContext(ctx), remote.WithTransport(m.client.Transport)); err != nil {
			return fmt.Errorf("push %s to the mirror: %w", image.Name, err)
		}
	}
	return nil
}
