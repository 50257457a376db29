//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	prometheus "github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kube-on-kube/cluster-api-provider-kok/config/monitoring"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/scrape"
	"github.com/kube-on-kube/cluster-api-provider-kok/hack/markdown"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

// collected bounds the wait for figures of a tenant: ten times what is usual.
const collected = 5 * time.Minute

var _ = Describe("Prometheus", Label(full, monitored), func() {
	It("reads the managers' metrics, answers every query of the dashboard, and takes every rule", func(ctx SpecContext) {
		b := newBackedUp(ctx, "monitored")
		b.createToLose(ctx)
		b.collectMetrics(ctx)
		p := startPrometheus(ctx, b.tenant)
		for _, component := range []string{names.KubeAPIServer, names.KubeControllerManager, names.KubeScheduler} {
			pods, err := b.pods(ctx, component)
			Expect(err).NotTo(HaveOccurred())
			up := fmt.Sprintf(`up{job=%q, cluster_namespace=%q, cluster_name=%q} == 1`, component, b.Namespace, b.Name)
			Eventually(ctx, p.query).WithArguments(ctx, up).WithTimeout(collected).Should(Equal(len(pods)), component)
		}
		// What Prometheus has may read metrics and nothing else.
		b.expectMetricsAlone(ctx)
		panels, err := monitoring.Panels()
		Expect(err).NotTo(HaveOccurred())
		queries := 0
		for _, panel := range panels {
			queries += len(panel.Targets)
			for _, target := range panel.Targets {
				query := strings.NewReplacer("$namespace", b.Namespace, "$cluster", b.Name).Replace(target.Expression)
				Eventually(ctx, func(g Gomega) {
					found, err := p.query(ctx, query)
					g.Expect(err).NotTo(HaveOccurred())
					if !countsWhatDidNotHappen(query) {
						g.Expect(found).NotTo(BeZero())
					}
				}).WithTimeout(collected).Should(Succeed(), "%s: %s", panel.Title, query)
			}
		}
		figure("dashboard_queries", queries, "queries")

		groups, err := monitoring.Groups()
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, p.alertRules).WithArguments(ctx).WithTimeout(collected).Should(HaveLen(count(groups)))
		for name, health := range must(p.alertRules(ctx)) {
			Expect(health).To(Equal("ok"), "the rule %s", name)
		}
		Expect(must(p.criticalAlerts(ctx))).To(BeEmpty(), "critical alerts while all is well")
	}, SpecTimeout(5*creation+10*collected))
})

// collectMetrics has the tenant's Secret for Prometheus made, and waits until it names the pods of all components.
func (t *tenant) collectMetrics(ctx context.Context) {
	GinkgoHelper()
	managed := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"metrics":{"mode":"Managed"}}}`))
	Expect(env.client.Patch(ctx, t.controlPlane(ctx), managed)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		secret := &corev1.Secret{}
		g.Expect(env.client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: names.MetricsCerts(t.Name)}, secret)).To(Succeed())
		g.Expect(secret.Data).To(HaveKey("tls.crt"))
	}).WithTimeout(collected).Should(Succeed())
}

// expectMetricsAlone asks an API server for more than metrics, as Prometheus.
func (t *tenant) expectMetricsAlone(ctx context.Context) {
	GinkgoHelper()
	data := t.secret(ctx, names.MetricsCerts(t.Name)).Data
	config := rest.CopyConfig(t.access)
	config.CertData, config.KeyData = data["tls.crt"], data["tls.key"]
	reader := must(kubernetes.NewForConfig(config))
	Expect(must(reader.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx))).NotTo(BeEmpty())
	_, err := reader.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
}

// countsWhatDidNotHappen reports whether a query may have no answer in a lab where all is well and no worker is.
func countsWhatDidNotHappen(query string) bool {
	for _, metric := range []string{"kok_tenant_hostile_answers_total", "kok_apiserver_lb_"} {
		if strings.Contains(query, metric) {
			return true
		}
	}
	return false
}

func count(groups []monitoring.Group) int {
	alerts := 0
	for _, group := range groups {
		alerts += len(group.Alerts)
	}
	return alerts
}

func must[T any](value T, err error) T {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	return value
}

// server is a Prometheus that runs on loopback.
type server struct{ api prometheusv1.API }

// startPrometheus starts one that reads the metrics of the three managers, and those of the components of tenants, with the rights and in
// the way that docs/monitoring.md gives. It trusts the managers' certificates alone.
func startPrometheus(ctx context.Context, tenants ...*tenant) server {
	GinkgoHelper()
	Expect(env.run(ctx, "make", "bin/prometheus")).To(Succeed())
	folder := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(folder, "token"), []byte(metricsToken(ctx)), 0o600)).To(Succeed())
	for name, content := range monitoring.Files() {
		Expect(os.WriteFile(filepath.Join(folder, name), content, 0o600)).To(Succeed())
	}
	var ofTenants []string
	for _, t := range tenants {
		ofTenants = append(ofTenants, filepath.Join("tenants", t.Name, scrape.ConfigFile))
		mounted := filepath.Join(folder, "tenants", t.Name)
		Expect(os.MkdirAll(mounted, 0o700)).To(Succeed())
		for name, content := range t.secret(ctx, names.MetricsCerts(t.Name)).Data {
			Expect(os.WriteFile(filepath.Join(mounted, name), content, 0o600)).To(Succeed())
		}
	}
	var targets []string
	var certificates []byte
	for _, key := range ownManagers {
		targets = append(targets, forwarded(managerPod(ctx, key), 8443))
		secret := &corev1.Secret{}
		get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: strings.TrimSuffix(key.Namespace, "-system") + "-metrics-cert"}, secret)
		certificates = append(certificates, secret.Data[corev1.TLSCertKey]...)
	}
	Expect(os.WriteFile(filepath.Join(folder, "ca.crt"), certificates, 0o600)).To(Succeed())
	config := map[string]any{
		"global":              map[string]any{"scrape_interval": "5s", "evaluation_interval": "5s"},
		"rule_files":          []string{monitoring.RulesFile},
		"scrape_config_files": ofTenants,
		"scrape_configs": []any{map[string]any{
			"job_name": "kok", "scheme": "https",
			"authorization":  map[string]any{"credentials_file": "token"},
			"tls_config":     map[string]any{"ca_file": "ca.crt", "server_name": "kok-metrics"},
			"static_configs": []any{map[string]any{"targets": targets}},
		}},
	}
	text, err := yaml.Marshal(config)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "prometheus.yaml"), text, 0o600)).To(Succeed())
	address := loopback.Free(GinkgoTB()).String()
	program := must(daemon.Start(filepath.Join(folder, "log"), "bin/prometheus", "--config.file="+filepath.Join(folder, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address))
	DeferCleanup(program.Kill)
	return server{prometheusv1.NewAPI(must(prometheus.NewClient(prometheus.Config{Address: "http://" + address})))}
}

// metricsToken is that of an account with the role of docs/monitoring.md.
func metricsToken(ctx context.Context) string {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{}
	for _, block := range must(markdown.Read("docs/monitoring.md")).Blocks {
		if strings.Contains(block.Code, "kind: ClusterRole\n") {
			Expect(yaml.UnmarshalStrict([]byte(block.Code), role)).To(Succeed())
		}
	}
	Expect(role.Name).NotTo(BeEmpty(), "the role of docs/monitoring.md")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: role.Name}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	for _, object := range []client.Object{role, account, binding} {
		Expect(client.IgnoreAlreadyExists(env.client.Create(ctx, object))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(env.client.Delete(ctx, object))).To(Succeed()) })
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	Expect(env.client.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// forwarded is an address of loopback that leads to the port of a pod until the spec ends.
func forwarded(pod *corev1.Pod, port int) string {
	GinkgoHelper()
	transport, upgrader, err := spdy.RoundTripperFor(env.config)
	Expect(err).NotTo(HaveOccurred())
	target := must(kubernetes.NewForConfig(env.config)).CoreV1().RESTClient().Post().
		Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	forwarder := must(portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, GinkgoWriter, GinkgoWriter))
	go func() { ended <- forwarder.ForwardPorts() }()
	DeferCleanup(func() { close(stop) })
	select {
	case <-ready:
	case err := <-ended:
		Fail(fmt.Sprintf("lead to port %d of pod %s: %v", port, pod.Name, err))
	}
	return fmt.Sprintf("127.0.0.1:%d", must(forwarder.GetPorts())[0].Local)
}

// query gives how many series answer a query.
func (s server) query(ctx context.Context, query string) (int, error) {
	answer, _, err := s.api.Query(ctx, query, time.Now())
	if err != nil {
		return 0, err
	}
	series, ok := answer.(model.Vector)
	if !ok {
		return 0, fmt.Errorf("%s is answered by a %s, and not by series", query, answer.Type())
	}
	return len(series), nil
}

// alertRules are the health of all alerting rules that were evaluated, by their names.
func (s server) alertRules(ctx context.Context) (map[string]string, error) {
	found, err := s.api.Rules(ctx)
	if err != nil {
		return nil, err
	}
	health := map[string]string{}
	for _, group := range found.Groups {
		for _, rule := range group.Rules {
			if alert, ok := rule.(prometheusv1.AlertingRule); ok && alert.Health != prometheusv1.RuleHealthUnknown {
				health[alert.Name] = string(alert.Health)
			}
		}
	}
	return health, nil
}

// criticalAlerts are the names of alerts that fire, or are about to.
func (s server) criticalAlerts(ctx context.Context) ([]string, error) {
	found, err := s.api.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, alert := range found.Alerts {
		if alert.Labels["severity"] == "critical" {
			names = append(names, string(alert.Labels[model.AlertNameLabel]))
		}
	}
	return names, nil
}
