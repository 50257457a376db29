package cleanup_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/bootstrap/bootstraptest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cleanup"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/cloudinit"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/hosttest"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/ownership"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/hosts/records"
	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

func TestAHostBecomesAMachineAndAHostAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		before := s.Plain()
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		if got := s.Files[cloudinit.SeedDir+"/user-data"]; got != hosttest.UserData {
			t.Errorf("user data is %q", got)
		}
		meta := map[string]string{}
		if err := json.Unmarshal([]byte(s.Files[cloudinit.SeedDir+"/meta-data"]), &meta); err != nil || meta["instance-id"] != "id-1" || meta["local-hostname"] != "worker-1" || meta["provider_id"] != "idc://team/host-1" {
			t.Errorf("meta data is %v, %v", meta, err)
		}
		if got := s.Files[onworker.KubeletEnvironment]; got != "KUBELET_EXTRA_ARGS=--provider-id=idc://team/host-1\n" {
			t.Errorf("%s is %q", onworker.KubeletEnvironment, got)
		}
		ran := len(s.Ran)
		if progress, err := bootstrap.Run(t.Context(), h, bootstraptest.Worker()); err != nil || progress.State != bootstrap.Done || s.Starts != 1 || len(s.Ran) > ran+2 {
			t.Errorf("once more it took %q", s.Ran[ran:])
		}
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
			t.Fatal(err)
		}
		s.ExpectPlain(before, "after the clean-up")
		if !slices.Contains(s.Mounts, "/data") {
			t.Error("a mount of the host's own is gone")
		}
		ran = len(s.Ran)
		if err := cleanup.Run(t.Context(), h, "id-1"); err != nil || len(s.Ran) != ran+2 {
			t.Errorf("once more: %v, %q", err, s.Ran[ran:])
		}
	})
}

func TestACleanUpThatIsCutGoesOn(t *testing.T) {
	hosttest.OnEach(t, func(t *testing.T, kind func(*testing.T) *hosttest.Simulated) {
		for cut := 1; ; cut++ {
			s := kind(t)
			before := s.Plain()
			h := hosts.New(s, "root")
			if _, err := bootstraptest.UntilEnded(t.Context(), h, bootstraptest.Worker()); err != nil {
				t.Fatal(err)
			}
			s.Ran, s.CutAfter = nil, cut
			if cleanup.Run(t.Context(), h, "id-1") == nil {
				if cut < 20 {
					t.Errorf("it took only %d commands", cut)
				}
				return
			}
			s.CutAfter = 0
			if err := cleanup.Run(t.Context(), h, "id-1"); err != nil {
				t.Errorf("cut after %q: %v", s.Ran[cut-1], err)
			}
			s.ExpectPlain(before, "cut after "+s.Ran[cut-1])
		}
	})
}

// ending is a host in whose visit the time ends after some commands.
type ending struct {
	*hosttest.Simulated
	after int
	end   context.CancelFunc
}

func (e *ending) Run(ctx context.Context, command ssh.Command) (ssh.Result, error) {
	result, err := e.Simulated.Run(ctx, command)
	if len(e.Ran) == e.after {
		e.end()
	}
	return result, err
}

// Between two steps of a clean-up nothing has failed.
func TestACleanUpWhoseTimeEndsIsNotTakenForDone(t *testing.T) {
	hosttest.OnEach(t, func(t *testing.T, kind func(*testing.T) *hosttest.Simulated) {
		for after := 1; ; after++ {
			s := kind(t)
			bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
			ctx, end := context.WithCancel(t.Context())
			s.Ran = nil
			err := cleanup.Run(ctx, hosts.New(&ending{s, after, end}, "admin"), "id-1")
			if err == nil && s.There(records.File) {
				t.Errorf("it is clean after %q", s.Ran[after-1])
			}
			end()
			if len(s.Ran) < after {
				return
			}
		}
	})
}

func TestAnotherMachinesHostIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := bootstraptest.Bootstrapped(t, s, bootstraptest.Worker())
		before := s.Plain()
		other := bootstraptest.Worker()
		other.Name, other.InstanceID = "worker-2", "id-2"
		var inUse *ownership.InUseError
		if _, err := bootstrap.Run(t.Context(), h, other); !errors.As(err, &inUse) || inUse.Record.Name != "worker-1" ||
			!strings.HasSuffix(err.Error(), "put back what is in /var/lib/kok-infrastructure/originals and remove /var/lib/kok-infrastructure on it") {
			t.Errorf("bootstrap: %v", err)
		}
		if err := cleanup.Run(t.Context(), h, "id-2"); !errors.As(err, &inUse) {
			t.Errorf("clean-up: %v", err)
		}
		facts, problem, err := probe.Run(t.Context(), h)
		if err != nil || problem != nil {
			t.Fatalf("probe: %v, %v", problem, err)
		}
		for instanceID, use := range map[string]ownership.Use{"": ownership.OfOthers, "id-2": ownership.OfOthers, "id-1": ownership.Ours} {
			if got := ownership.Judge(&facts.Usage, &ownership.Claimant{InstanceID: instanceID, TakeOver: "kubelet runs"}); got.Use != use {
				t.Errorf("for machine %q it is %+v", instanceID, got)
			}
		}
		if after := s.Plain(); after != before {
			t.Error("it was changed")
		}
	})
}

// A host that does not let us look is not clean.
func TestAHostWithoutSudoIsNeverTakenForClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hosttest.New(t)
		h := hosts.New(s, "admin")
		s.NoSudo = true
		if err := cleanup.Run(t.Context(), h, "id-1"); err == nil || !strings.Contains(err.Error(), "a password is required") {
			t.Errorf("clean-up: %v", err)
		}
		if progress, err := bootstrap.Run(t.Context(), h, bootstraptest.Worker()); err == nil || !strings.Contains(err.Error(), "a password is required") {
			t.Errorf("bootstrap: %+v, %v", progress, err)
		}
	})
}
