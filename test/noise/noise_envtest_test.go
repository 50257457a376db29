//go:build envtest

package noise

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

func TestMain(m *testing.M) {
	if reexec.Role() == Role {
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

func TestNoise(t *testing.T) {
	environment := &envtest.Environment{}
	stop, err := interrupt.Guard(func() error { _, err := environment.Start(); return err }, environment.Stop)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	config := environment.Config
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(reexec.Command(t.Context(), Role), &Settings{
		Servers: []string{strings.TrimPrefix(config.Host, "https://")}, TLS: config.TLSClientConfig,
		Namespace: metav1.NamespaceDefault, Objects: 10, Writes: 50, Watches: 60,
	})
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := wait.PollUntilContextTimeout(t.Context(), often, 3*time.Minute, true, func(context.Context) (bool, error) {
		report, err = p.Report()
		return report.Held == 60 && min(report.Due, report.Written) > 100 && report.Events > 600, err
	}); err != nil {
		t.Fatalf("%v: %+v", err, report)
	}
	if report.Failed > 0 || report.Ended > 0 {
		t.Errorf("%+v", report)
	}

	reading, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if reads := Read(reading, 20, []kubernetes.Interface{api, api}); len(reads.Times) < 10 || len(reads.Failed) > 0 || reads.Quantile(0.99) == 0 {
		t.Errorf("beside it %d reads were answered, and %q failed", len(reads.Times), reads.Failed)
	}

	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if p.CPU() == 0 {
		t.Error("it took no time of the processors")
	}
	if _, err := p.Report(); err == nil {
		t.Error("it goes on")
	}
	written, err := api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "noise-1", metav1.GetOptions{})
	if err != nil || len(written.Data["written"]) != 1024 {
		t.Errorf("what was written is %v, %v", written.Data, err)
	}
}

func TestNoiseThatCannotBeMadeSaysWhy(t *testing.T) {
	p, err := Start(reexec.Command(t.Context(), Role), &Settings{Servers: []string{"127.0.0.1:1"}, Namespace: "default", Objects: 1, Writes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), often, time.Minute, true, func(context.Context) (bool, error) {
		_, err := p.Report()
		return err != nil, nil
	}); err != nil {
		t.Error("it says nothing")
	}
	if err := p.Stop(); err == nil {
		t.Error("it ended well")
	}
}
