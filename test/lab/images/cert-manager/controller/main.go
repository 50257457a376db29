// Command controller runs cert-manager's own controllers for certificates, and for issuers that need nothing outside
// the cluster: CA and SelfSigned. It takes the flags that cert-manager's chart passes.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"

	_ "github.com/cert-manager/cert-manager/internal/controller/feature" // feature gates
	"github.com/cert-manager/cert-manager/kok-lab/startup"
	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver" // and below: controllers
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	"github.com/cert-manager/cert-manager/pkg/healthz"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"         // issuer
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned" // issuer
	"github.com/cert-manager/cert-manager/pkg/logs"
)

// workers of each controller; cert-manager's default.
const workers = 5

// settings are what the chart chooses; the rest are cert-manager's defaults.
type settings struct {
	secretsNamespace string
	logging          logsapi.LoggingConfiguration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse() (*settings, error) {
	s := &settings{}
	logsapi.SetRecommendedLoggingConfiguration(&s.logging)
	f := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	f.StringVar(&s.secretsNamespace, "cluster-resource-namespace", "kube-system", "namespace of the Secrets of cluster-wide issuers")
	logs.AddFlags(&s.logging, f)
	// No ACME issuer is composed here, and the lab runs one replica, so nothing else can lead.
	f.String("acme-http01-solver-image", "", "accepted for the chart's sake")
	f.Int("max-concurrent-challenges", 0, "accepted for the chart's sake")
	f.String("leader-election-namespace", "", "accepted for the chart's sake")
	elect := f.Bool("leader-elect", true, "must be false: there is one replica")
	if err := f.Parse(os.Args[1:]); err != nil {
		return nil, err
	}
	if *elect {
		return nil, errors.New("leader election is not composed here: pass --leader-elect=false and run one replica")
	}
	return s, logs.ValidateAndApply(&s.logging)
}

func run(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if err := startup.WaitAPI(ctx, config); err != nil {
		return err
	}
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: s.secretsNamespace, ClusterIssuerAmbientCredentials: true},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	root, err := factory.Build()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if err := serve(ctx, group, root); err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		running, err := construct(factory)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		group.Go(func() error { return running.Run(workers, ctx) })
	}
	root.SharedInformerFactory.Start(ctx.Done())
	root.KubeSharedInformerFactory.Start(ctx.Done())
	return group.Wait()
}

// serve answers health checks and metrics, on the ports that the chart names.
func serve(ctx context.Context, group *errgroup.Group, root *controller.Context) error {
	health, err := net.Listen("tcp", ":9403")
	if err != nil {
		return err
	}
	group.Go(func() error { return healthz.NewServer(20*time.Second).Start(ctx, health) })
	listener, err := net.Listen("tcp", ":9402")
	if err != nil {
		return err
	}
	server := root.Metrics.NewServer(listener)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		shutdown, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return server.Shutdown(shutdown)
	})
	return nil
}
