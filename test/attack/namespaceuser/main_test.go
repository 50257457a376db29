//go:build attack

package namespaceuser

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/zap/zapcore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/interrupt"
)

// management is the cluster that is attacked.
var management = &stage{}

func TestMain(m *testing.M) {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr), zap.Level(zapcore.DPanicLevel)))
	os.Exit(testAll(m))
}

func testAll(m *testing.M) int {
	stop, err := interrupt.Guard(management.start, management.stop)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := report(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// report lists every try with what stopped it, and writes the figures to where all steps do.
func report() error {
	succeeded := 0
	for _, tried := range trials {
		if tried.harm != "" {
			succeeded++
		}
		fmt.Println(tried)
	}
	all := []figures.Figure{
		figures.New("namespace_attack_tries", len(trials), "tries"),
		figures.New("namespace_attack_succeeded", succeeded, "tries"),
	}
	for _, figure := range all {
		fmt.Println(figure)
	}
	if err := os.Chdir(management.project); err != nil {
		return err
	}
	return figures.Write("test-attack-namespace", all)
}
