//go:build e2e

package capi

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// settings are the suite's flags; paths are relative to where it is started.
var settings struct {
	repository, programs, registry, tag, providerVersion, templates, forSpecs, artifacts string
}

func init() {
	flag.StringVar(&settings.repository, "capi.repository", "out", "folder that make release-manifests wrote")
	flag.StringVar(&settings.programs, "capi.programs", "bin", "folder with the programs of the providers")
	flag.StringVar(&settings.registry, "capi.image-registry", "ghcr.io/kube-on-kube", "registry and path of the providers' images")
	flag.StringVar(&settings.tag, "capi.image-tag", "dev", "tag of the providers' images")
	flag.StringVar(&settings.providerVersion, "capi.provider-version", "v0.1.0", "version of the providers in the repository")
	flag.StringVar(&settings.templates, "capi.templates", "templates", "folder with the templates of Clusters")
	flag.StringVar(&settings.forSpecs, "capi.spec-templates", "test/capi/templates", "folder with the templates that only specs ask for")
	flag.StringVar(&settings.artifacts, "capi.artifacts", "out/capi", "folder for what specs write, and for what explains a failure")
}

// background is what Cluster API's specs are given: they bound each wait by themselves.
var background = context.Background()

// env is the lab with the providers installed.
var env *environment

func TestClusterAPISpecs(t *testing.T) {
	RegisterFailHandler(Fail)
	klog.SetOutput(GinkgoWriter)
	ctrl.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(time.Second)
	RunSpecs(t, "Cluster API's own specs")
	for _, failure := range failures {
		t.Error(failure)
	}
	figure := figures.New("capi_specs_passed", passed, "specs")
	fmt.Println(figure)
	if err := figures.Write("capi", []figures.Figure{figure}); err != nil {
		t.Error(err)
	}
}

// failures are those of all specs in a line each, passed is the number of specs without.
var (
	failures []string
	passed   int
)

var _ = ReportAfterSuite("what passed, and failures in short", func(report Report) {
	const most = 1500
	for _, spec := range report.SpecReports {
		switch {
		case spec.Failed():
			message := strings.Join(strings.Fields(spec.FailureMessage()), " ")
			failures = append(failures, fmt.Sprintf("%s: %.*s", spec.FullText(), most, message))
		case spec.LeafNodeType == types.NodeTypeIt && spec.State == types.SpecStatePassed:
			passed++
		}
	}
})

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	env, err = newEnvironment(ctx)
	Expect(err).NotTo(HaveOccurred())
	// The last is first: hosts go when nothing is left that could want them, and go whatever is left.
	DeferCleanup(env.removeHosts, NodeTimeout(deletion))
	DeferCleanup(env.removeNamespaces, NodeTimeout(2*deletion))
}, NodeTimeout(10*time.Minute))

// Objects and logs are those of the moment of the failure: this runs before what cleans up.
var _ = JustAfterEach(func(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		env.collect(ctx)
	}
}, NodeTimeout(3*time.Minute))
