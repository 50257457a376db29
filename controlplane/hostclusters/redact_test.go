package hostclusters

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/untrusted"
)

// hidden are parts of all credentials in these tests, in the forms in which they may come back.
var hidden = []string{"hidden-token", "hidden-password", base64.StdEncoding.EncodeToString([]byte("me:hidden-password"))}

// users are those who ask in these tests, by what they prove themselves with.
var users = map[string]string{"a token": "token: hidden-token-of-a-manager", "a password": "username: me, password: hidden-password"}

// tells is the secret that a text tells, if any.
func tells(text string) string {
	for _, secret := range hidden {
		if strings.Contains(text, secret) {
			return secret
		}
	}
	return ""
}

// with is a kubeconfig with more in its cluster and its user.
func with(server, cluster, user string) string {
	return `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "` + server + `"` + cluster + `}}], users: [{name: u, user: {` + user + `}}]}`
}

// asked is a configuration that leads to a server.
func asked(t *testing.T, server *httptest.Server, cluster, user string) *rest.Config {
	t.Helper()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	config, err := untrusted.Config([]byte(with(server.URL, ", certificate-authority-data: "+ca+cluster, user)))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// echo is how a server answers with the credentials that it was sent.
type echo func(w http.ResponseWriter, credentials string)

var echoes = map[string]echo{
	"on a gateway's page": func(w http.ResponseWriter, credentials string) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = fmt.Fprintf(w, "<h1>Bad gateway</h1><pre>Authorization: %s</pre>", credentials)
	},
	"on a page that is told to be well": func(w http.ResponseWriter, credentials string) {
		_, _ = fmt.Fprintf(w, "<h1>Log in</h1><pre>Authorization: %s</pre>", credentials)
	},
	"in an object that is none": func(w http.ResponseWriter, credentials string) {
		answer(w, http.StatusOK, map[string]string{"authorization": credentials})
	},
	"in a refusal": func(w http.ResponseWriter, credentials string) {
		_, alone, _ := strings.Cut(credentials, " ")
		answer(w, http.StatusForbidden, refusal(alone))
	},
	"in a failure that is told to be well": func(w http.ResponseWriter, credentials string) {
		_, alone, _ := strings.Cut(credentials, " ")
		answer(w, http.StatusOK, refusal(alone))
	},
	"in a warning": func(w http.ResponseWriter, credentials string) {
		w.Header().Set("Warning", `299 - "sent `+credentials+`"`)
		w.WriteHeader(http.StatusConflict)
	},
	"in place of HTTP": func(w http.ResponseWriter, credentials string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(conn, "%s\r\n\r\n", credentials)
			_ = conn.Close()
		}
	},
}

func refusal(credentials string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden,
		Reason: metav1.StatusReasonForbidden, Message: "nobody has the credentials " + credentials,
	}
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// gateway starts the API server of a host cluster that has namespaces, and from some moment on only quotes.
func gateway(t *testing.T, quote echo) (server *httptest.Server, quotes *atomic.Bool) {
	t.Helper()
	quotes = &atomic.Bool{}
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case quotes.Load():
			quote(w, r.Header.Get("Authorization"))
		case path == "/apis":
			answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}})
		case path == "/api":
			answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		case path == "/api/v1":
			answer(w, http.StatusOK, metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: "v1",
				APIResources: []metav1.APIResource{{Name: "namespaces", Kind: "Namespace"}, {Name: "pods", Kind: "Pod", Namespaced: true}},
			})
		case strings.HasPrefix(path, "/api/v1/namespaces/"):
			answer(w, http.StatusOK, corev1.Namespace{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: path[len("/api/v1/namespaces/"):]},
			})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server, quotes
}

// connected is a host cluster, and how it is connected to.
func connected(t *testing.T, config *rest.Config) (host *Host, open func() error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	open = func() (err error) {
		host, _, err = Options{Scheme: scheme, PortNamespace: "ports"}.open(t.Context(), opening{
			namespace: "team", config: config, changed: func(context.Context, client.Object) {},
		})
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	return host, open
}

// said is all that is heard by somebody who asks a host cluster in every way.
func said(t *testing.T, config *rest.Config, host *Host, open func() error) string {
	t.Helper()
	raw := func() error {
		asking, err := httpClientFor(Options{}.transport(t.Context(), config))
		if err != nil {
			return err
		}
		got, err := asking.Get(config.Host)
		if err != nil {
			return err
		}
		defer got.Body.Close() //nolint:errcheck // It is read.
		whole, err := httputil.DumpResponse(got, true)
		return errors.Join(errors.New(string(whole)), err)
	}
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	untyped.SetNamespace(member.Namespace)
	untyped.SetName(member.Name)
	_, dialed := host.Dial(t.Context(), member, 2379)
	return fmt.Sprint(errors.Join(
		raw(), dialed,
		host.Live.Get(t.Context(), member, &corev1.Pod{}),
		host.Live.Get(t.Context(), member, untyped.DeepCopy()),
		host.Live.List(t.Context(), &corev1.PodList{}),
		host.Client.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: member.Namespace, Name: member.Name}}),
		host.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(untyped), client.FieldOwner("test")),
		open(),
	))
}

func TestCredentialsDoNotComeBackFromAHostCluster(t *testing.T) {
	for where, quote := range echoes {
		for kind, user := range users {
			t.Run(kind+", "+where, func(t *testing.T) {
				server, quotes := gateway(t, quote)
				config := asked(t, server, "", user)
				host, open := connected(t, config)
				quotes.Store(true)
				heard := said(t, config, host, open)
				if secret := tells(heard); secret != "" || !strings.Contains(heard, "****") {
					t.Errorf("it tells %q: %s", secret, heard)
				}
			})
		}
	}
}

func TestCredentialsDoNotComeBackFromAWatch(t *testing.T) {
	for kind, user := range users {
		for form, part := range map[string]func(string) string{
			"as they were sent": func(credentials string) string { return credentials },
			"alone":             func(credentials string) string { return strings.Fields(credentials)[1] },
		} {
			t.Run(kind+", "+form, func(t *testing.T) {
				server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					answer(w, http.StatusOK, map[string]any{"type": watch.Error, "object": refusal(part(r.Header.Get("Authorization")))})
				}))
				t.Cleanup(server.Close)
				asking, err := corev1client.NewForConfig(asked(t, server, "", user))
				if err != nil {
					t.Fatal(err)
				}
				events, err := asking.Pods("team").Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer events.Stop()
				heard := apierrors.FromObject((<-events.ResultChan()).Object).Error()
				if secret := tells(heard); secret != "" || !strings.Contains(heard, "nobody has the credentials ****") {
					t.Errorf("it tells %q: %s", secret, heard)
				}
			})
		}
	}
}

func TestCredentialsDoNotComeBackFromAProxy(t *testing.T) {
	server, _ := gateway(t, nil)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 407 it is not me:hidden-password, %s\r\n\r\n", r.Header.Get("Proxy-Authorization"))
			_ = conn.Close()
		}
	}))
	t.Cleanup(proxy.Close)
	config := asked(t, server, ", proxy-url: 'http://me:hidden-password@"+proxy.Listener.Addr().String()+"'", "token: hidden-token")
	made, err := httpClientFor(Options{}.transport(t.Context(), config))
	if err != nil {
		t.Fatal(err)
	}
	_, err = made.Get("https://far.example") //nolint:bodyclose // There is none.
	if err == nil || tells(err.Error()) != "" || !strings.Contains(err.Error(), "it is not ****") {
		t.Errorf("got %v", err)
	}
	_, err = forwarder{config: config, life: t.Context()}.dial(t.Context(), member, 2379)
	if err == nil || tells(err.Error()) != "" {
		t.Errorf("on the way to a pod: got %v", err)
	}
}

func TestAPasswordThatIsAWordChangesNoObject(t *testing.T) {
	server, _ := gateway(t, nil)
	host, _ := connected(t, asked(t, server, "", "username: me, password: team"))
	namespace := &corev1.Namespace{}
	if err := host.Live.Get(t.Context(), client.ObjectKey{Name: "team"}, namespace); err != nil || namespace.Name != "team" {
		t.Errorf("got %q, %v", namespace.Name, err)
	}
}
