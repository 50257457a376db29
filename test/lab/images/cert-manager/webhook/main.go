// Command webhook serves cert-manager's own admission webhook.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cert-manager/cert-manager/internal/webhook"
	_ "github.com/cert-manager/cert-manager/internal/webhook/feature" // feature gates
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
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

func run(ctx context.Context) error {
	c, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	f := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(f, c)
	if err := f.Parse(os.Args[1:]); err != nil {
		return err
	}
	if err := logs.ValidateAndApply(&c.Logging); err != nil {
		return err
	}
	log := logs.FromContext(ctx)
	ctrl.SetLogger(log)
	server, err := webhook.NewCertManagerWebhookServer(log, *c)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
