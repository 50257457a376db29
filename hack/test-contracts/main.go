// Command test-contracts runs the tests of Cluster API's contracts and counts the rules whose test passed. It is
// make test-contracts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/contract/rules"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processgroup"
)

// packages have the tests of contracts.
var packages = []string{"./bootstrap", "./controlplane/controllers", "./infrastructure/controllers"}

// stopLimit is the time that tests which are interrupted have to stop the API servers that they started.
const stopLimit = 2 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test-contracts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var tests []string
	for _, contract := range rules.All() {
		tests = append(tests, contract.Test())
	}
	arguments := []string{"test", "-json", "-count=1", "-p=1", "-timeout=15m", "-tags=envtest", "-run=^(" + strings.Join(tests, "|") + ")$"}
	cmd := exec.CommandContext(ctx, "go", append(arguments, packages...)...)
	cmd.Stderr = os.Stderr
	events, out := io.Pipe()
	cmd.Stdout = out
	ended := make(chan error, 1)
	go func() {
		ended <- processgroup.Run(cmd, stopLimit)
		_ = out.Close()
	}()
	tested, readErr := count(events, os.Stdout, tests)
	_ = events.Close()
	if err := errors.Join(readErr, <-ended); err != nil {
		err = fmt.Errorf("go test: %w", err)
		return errors.Join(err, report(tested))
	}
	return report(tested)
}

func report(tested int) error {
	figure := figures.New("contract_rules_tested", tested, "rules")
	fmt.Println(figure)
	return figures.Write("contracts", []figures.Figure{figure})
}

// count reads the events of go test, as cmd/test2json documents them, shows what tests print, and counts the subtests of
// tests that passed; what these have for subtests is a part of them.
func count(events io.Reader, out io.Writer, tests []string) (passed int, err error) {
	rule := map[string]bool{}
	for _, test := range tests {
		rule[test] = true
	}
	for decoder := json.NewDecoder(events); ; {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return passed, nil
		} else if err != nil {
			return passed, err
		}
		if _, err := io.WriteString(out, event.Output); err != nil {
			return passed, err
		}
		test, sub, isSub := strings.Cut(event.Test, "/")
		if event.Action == "pass" && rule[test] && isSub && !strings.Contains(sub, "/") {
			passed++
		}
	}
}
