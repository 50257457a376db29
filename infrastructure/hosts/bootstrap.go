package hosts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

const (
	// cloudDir is where cloud-init keeps its state and its seed.
	cloudDir = "/var/lib/cloud"
	seedDir  = cloudDir + "/seed/nocloud"
	// cloudConfigFile is the file that we add to cloud-init's settings.
	cloudConfigFile = "/etc/cloud/cloud.cfg.d/99-kok.cfg"
	// unitName is the unit that runs cloud-init, and unitFile is where it is, until the next boot.
	unitName = "kok-cloud-init.service"
	unitFile = "/run/systemd/system/" + unitName
	// sentinelFile is written by the bootstrap data when they succeeded.
	sentinelFile = onworker.SentinelFile
	// kubeletFile may set arguments of kubelet (kubeadm's drop-in of kubelet.service reads it, too).
	kubeletFile = onworker.KubeletEnvironment
	// kubeconfigFile is written by kubelet when it has joined a cluster.
	kubeconfigFile = onworker.Kubeconfig

	// hostnameFile and hostsFile change with the host's name.
	hostnameFile = "/etc/hostname"
	hostsFile    = "/etc/hosts"
	outputFile   = "/var/log/cloud-init-output.log"
)

const (
	// watchTime is how long one call of Bootstrap watches cloud-init.
	watchTime = 5 * time.Second
	// watchInterval is how often it looks.
	watchInterval = 250 * time.Millisecond
)

// Machine describes the machine that a host becomes.
type Machine struct {
	// Namespace and Name are the IDCMachine's. The name is the host's name, and so the Node's.
	Namespace, Name string
	// InstanceID is cloud-init's instance-id.
	InstanceID string
	// ProviderID is the Node's.
	ProviderID string
	// UserData is the bootstrap data, for cloud-init. It may be empty when the host is the machine already.
	UserData []byte
	// Reached, Nodes and TakeOver are as Claimant has them.
	Reached  netip.Addr
	Nodes    []Node
	TakeOver string
}

func (m *Machine) claimant() *Claimant {
	return &Claimant{InstanceID: m.InstanceID, Reached: m.Reached, Nodes: m.Nodes, TakeOver: m.TakeOver}
}

func (m *Machine) dataHash() string {
	sum := sha256.Sum256(m.UserData)
	return hex.EncodeToString(sum[:])
}

// words matches instance IDs and provider IDs, which are written into files as they are.
var words = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)

// check refuses a machine whose names would change the meaning of a file that they are written into.
func (m *Machine) check() error {
	for field, value := range map[string]string{"instanceID": m.InstanceID, "providerID": m.ProviderID} {
		if !words.MatchString(value) {
			return fmt.Errorf("spec.%s of the IDCMachine, %q, must have letters, digits, '.', '_' and '-' alone; make the machine anew, without one", field, value)
		}
	}
	return nil
}

// metaData is what templates of bootstrap data find as ds.meta_data. It is JSON, which is YAML, too.
func (m *Machine) metaData() ([]byte, error) {
	return json.Marshal(map[string]string{
		"instance-id": m.InstanceID, "local-hostname": m.Name, "provider_id": m.ProviderID,
	})
}

// ErrNoBootstrapData says that a host cannot become a machine without bootstrap data.
var ErrNoBootstrapData = errors.New("there is no bootstrap data for the host")

// Bootstrap begins to make a host a machine, or goes on with that, and returns after a few seconds how far it is. Call it
// again until the state is Done or Failed. After a failure, other bootstrap data start anew. The error is an *InUseError
// when the host is in use; then nothing on it was changed. It is a *ProblemError when a probe finds a problem of the host.
func (h *Host) Bootstrap(ctx context.Context, machine Machine) (Progress, error) {
	progress, err := h.bootstrap(ctx, machine)
	return progress, h.explain(ctx, err)
}

func (h *Host) bootstrap(ctx context.Context, machine Machine) (Progress, error) {
	record, err := h.readRecord(ctx)
	if err != nil {
		return Progress{}, err
	}
	if record != nil && record.InstanceID != machine.InstanceID {
		return Progress{}, &InUseError{Record: record}
	}
	if record != nil && record.Done {
		return Progress{State: Done, Avoided: tellable(record.Avoided)}, nil
	}
	if record == nil {
		if err := machine.check(); err != nil {
			return Progress{}, err
		}
	}
	if len(machine.UserData) == 0 {
		return Progress{}, ErrNoBootstrapData
	}
	takenOver := ""
	if record == nil {
		if takenOver, err = h.mayHave(ctx, &machine); err != nil {
			return Progress{}, err
		}
	}
	units, err := h.units(ctx, unitName)
	if err != nil {
		return Progress{}, err
	}
	if record != nil && record.DataHash != machine.dataHash() && units[0].active != "activating" {
		if err := h.CleanUp(ctx, machine.InstanceID); err != nil {
			return Progress{}, fmt.Errorf("start anew with other bootstrap data: %w", err)
		}
		record, units[0] = nil, unitState{}
	}
	if record == nil {
		if record, err = h.note(ctx, machine, takenOver); err != nil {
			return Progress{}, fmt.Errorf("note what is on the host: %w", err)
		}
	}
	if record.TakenOver != "" && !record.Seeded {
		if err := h.endNode(ctx, record); err != nil {
			return Progress{}, fmt.Errorf("remove the node that the host was: %w", err)
		}
	}
	if err := h.start(ctx, machine, record, units[0]); err != nil {
		return Progress{}, err
	}
	return h.watch(ctx, record)
}

// mayHave decides, before the first change, whether the machine may have a host without Record. It returns the fact that a
// person allowed in spec.takeOver; empty for a free host.
func (h *Host) mayHave(ctx context.Context, machine *Machine) (takenOver string, err error) {
	programs, err := h.programs(ctx)
	if err != nil {
		return "", err
	}
	usage, err := h.usage(ctx, programs)
	if err != nil {
		return "", fmt.Errorf("look whose the host is: %w", err)
	}
	found := Judge(usage, machine.claimant())
	return found.Fact, found.Err()
}

// start seeds and starts cloud-init, unless that is done already.
func (h *Host) start(ctx context.Context, machine Machine, record *Record, unit unitState) error {
	if !record.Seeded {
		if err := h.seed(ctx, machine); err != nil {
			return fmt.Errorf("prepare the host for cloud-init: %w", err)
		}
		record.Seeded = true
		if err := h.writeRecord(ctx, record); err != nil {
			return err
		}
	}
	if record.Started {
		return nil
	}
	// The unit may run already, or have ended: a start is recorded only after it was made.
	if !unit.loaded || unit.active == "inactive" {
		if _, err := h.run(ctx, "systemctl", "start", "--no-block", unitName); err != nil {
			return fmt.Errorf("start cloud-init: %w", err)
		}
	}
	record.Started = true
	return h.writeRecord(ctx, record)
}

// watch waits for the sentinel file, for watchTime at most, and then finds out how far cloud-init is.
func (h *Host) watch(ctx context.Context, record *Record) (Progress, error) {
	made := false
	err := wait.PollUntilContextTimeout(ctx, watchInterval, watchTime, true, func(ctx context.Context) (_ bool, err error) {
		sentinel, err := h.existing(ctx, sentinelFile)
		made = len(sentinel) > 0
		return made, err
	})
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if wait.Interrupted(err) {
		err = nil // cloud-init still runs.
	}
	if err != nil {
		return Progress{}, fmt.Errorf("watch cloud-init: %w", err)
	}
	progress, err := h.progress(ctx, made)
	if err != nil {
		return Progress{}, fmt.Errorf("watch cloud-init: %w", err)
	}
	switch progress.State {
	case Done:
		if record.Avoided, err = h.avoidedSources(ctx, software.ResultFile); err != nil {
			return Progress{}, fmt.Errorf("read which sources of software were avoided: %w", err)
		}
		record.Done, progress.Avoided = true, record.Avoided
		return progress, h.writeRecord(ctx, record)
	case Failed:
		if progress.Software, err = h.softwareProblem(ctx, software.ResultFile); err != nil || progress.Software != nil {
			return progress, err
		}
		progress.Output, err = h.lastWords(ctx)
		return progress, err
	default:
		return progress, nil
	}
}

// progress reads from the host what judge needs. cloud-init's command line is used only once its unit has ended, because it
// takes longer than all the rest together.
func (h *Host) progress(ctx context.Context, made bool) (Progress, error) {
	if made {
		return judge(true, unitState{}, nil), nil
	}
	// Read the unit first: once it has ended, no sentinel file comes any more.
	units, err := h.units(ctx, unitName)
	if err != nil {
		return Progress{}, err
	}
	sentinel, err := h.existing(ctx, sentinelFile)
	if err != nil {
		return Progress{}, err
	}
	var status *cloudInitStatus
	if units[0].active == "activating" {
		status, err = h.stage(ctx)
	} else if len(sentinel) == 0 {
		status, err = h.cloudInit(ctx)
	}
	if err != nil {
		return Progress{}, err
	}
	return judge(len(sentinel) > 0, units[0], status), nil
}

// lastWords is the end of the output of a failed bootstrap.
func (h *Host) lastWords(ctx context.Context) (string, error) {
	output, err := h.excerpt(ctx, "tail", "--lines=20", outputFile)
	if err != nil {
		return "", err
	}
	units, err := h.units(ctx, onworker.BootstrapUnit)
	if err != nil {
		return "", err
	}
	if units[0].active == "failed" {
		journal, err := h.excerpt(ctx, "journalctl", "--unit="+onworker.BootstrapUnit, "--boot", "--lines=20", "--output=cat", "--no-pager")
		if err != nil {
			return "", err
		}
		output = append(append(output, "\n"...), journal...)
	}
	return tail(output), nil
}
