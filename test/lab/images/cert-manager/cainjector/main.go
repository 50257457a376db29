// Command cainjector runs cert-manager's own injector of authorities into webhook configurations and definitions. It
// takes the flags that cert-manager's chart passes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	config "github.com/cert-manager/cert-manager/internal/apis/config/cainjector"
	"github.com/cert-manager/cert-manager/internal/apis/config/cainjector/scheme"
	_ "github.com/cert-manager/cert-manager/internal/cainjector/feature" // feature gates
	"github.com/cert-manager/cert-manager/kok-lab/startup"
	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/apis/config/cainjector/v1alpha1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func configuration() (*config.CAInjectorConfiguration, error) {
	s, _, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, err
	}
	versioned := &v1alpha1.CAInjectorConfiguration{}
	s.Default(versioned)
	c := &config.CAInjectorConfiguration{}
	if err := s.Convert(versioned, c, nil); err != nil {
		return nil, err
	}
	f := pflag.NewFlagSet("cainjector", pflag.ContinueOnError)
	f.StringVar(&c.MetricsListenAddress, "metrics-listen-address", c.MetricsListenAddress, "address of the metrics; 0 for none")
	logs.AddFlags(&c.Logging, f)
	// The lab runs one replica: nothing else can lead.
	f.String("leader-election-namespace", "", "accepted for the chart's sake")
	elect := f.Bool("leader-elect", true, "must be false: there is one replica")
	if err := f.Parse(os.Args[1:]); err != nil {
		return nil, err
	}
	if *elect {
		return nil, errors.New("leader election is not composed here: pass --leader-elect=false and run one replica")
	}
	return c, logs.ValidateAndApply(&c.Logging)
}

func run(ctx context.Context) error {
	c, err := configuration()
	if err != nil {
		return err
	}
	ctrl.SetLogger(logs.FromContext(ctx))
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, certmanagerv1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, admissionv1.AddToScheme,
	} {
		if err := add(types); err != nil {
			return err
		}
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if err := startup.WaitAPI(ctx, rest); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(rest, "cainjector"), ctrl.Options{
		Scheme: types,
		// Secrets are watched by their metadata and read one by one.
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics: server.Options{BindAddress: c.MetricsListenAddress},
	})
	if err != nil {
		return err
	}
	err = cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		Namespace:                    c.Namespace,
		IgnoreNamespaces:             c.IgnoreNamespaces,
		EnableCertificatesDataSource: c.EnableDataSourceConfig.Certificates,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   c.EnableInjectableConfig.MutatingWebhookConfigurations,
			cainjector.ValidatingWebhookConfigurationName: c.EnableInjectableConfig.ValidatingWebhookConfigurations,
			cainjector.APIServiceName:                     c.EnableInjectableConfig.APIServices,
			cainjector.CustomResourceDefinitionName:       c.EnableInjectableConfig.CustomResourceDefinitions,
		},
	})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
