package bundle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/exit"
)

// A bundle without the log that explains a failure looks like one that has it.
func TestABundleThatLacksSomethingIsBadNews(t *testing.T) {
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	c := &collector{options: options{output: "kok.tar.gz"}, cluster: access.New("kok", streams), redactor: newRedactor()}
	c.redactor.learned()
	if err := c.lacks(); err != nil || errOut.Len() > 0 {
		t.Errorf("one that has everything ends with %v, and says %s", err, errOut)
	}
	for i := range maxTold + 1 {
		c.note(fmt.Sprintf("read log %d", i), errors.New("its node is off"))
	}
	err := c.lacks()
	if exit.Status(err) != exit.Bad || !strings.Contains(err.Error(), "kok.tar.gz is written, and 11 things could not be read; errors.txt in it lists them") {
		t.Errorf("it ends with %v", err)
	}
	if told := errOut.String(); strings.Count(told, "\n") != maxTold || !strings.Contains(told, "Not in it: read log 9: its node is off\n") {
		t.Errorf("it tells\n%s", told)
	}
}
