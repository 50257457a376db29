package floor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/certificates"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/probe"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/shape"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/processes"
)

// floor is a floor that runs.
type floor struct {
	*rendering
	config   *Config
	timeline *timeline.Timeline
	clients  map[*host.Host]*http.Client

	// life ends when a process ended that should not, or when the caller has enough.
	life context.Context
	end  context.CancelCauseFunc
	// processes that run.
	running sync.WaitGroup
}

var errOver = errors.New("the floor is over")

// Run starts a floor, waits until it is usable, and ends it. Certificates and files are there before its time begins.
// observed is called while it still runs.
func Run(ctx context.Context, config *Config, observed func()) (*timeline.Timeline, error) {
	if err := Clean(config.Hosts); err != nil {
		return nil, err
	}
	rendered, err := render(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("render the floor: %w", err)
	}
	f := &floor{rendering: rendered, config: config, clients: map[*host.Host]*http.Client{}}
	for _, h := range config.Hosts {
		namespace, err := probe.OpenNamespace(h)
		if err != nil {
			return nil, err
		}
		defer namespace.Close()
		f.clients[h] = probe.Client(namespace.DialContext)
	}
	for _, p := range f.processes {
		if err := p.Write(p.host.DiskPath); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", p.Name, err)
		}
	}
	f.life, f.end = context.WithCancelCause(ctx)
	f.timeline = timeline.Start()
	err = f.run()
	if err == nil {
		f.timeline.Mark(shape.Done, "", "")
		observed()
	} else {
		err = fmt.Errorf("start a control plane as plain processes: %w", err)
	}
	f.end(errOver)
	f.running.Wait()
	return f.timeline, errors.Join(err, Clean(config.Hosts))
}

// run starts each component when those before it are ready, as the provider does: kube-apiserver when both etcd
// clusters have a quorum, what talks to kube-apiserver when that of its host is ready.
func (f *floor) run() error {
	group, ctx := errgroup.WithContext(f.life)
	group.Go(func() error {
		f.startAll(ctx, group, shape.Etcds...)
		if err := f.timeline.Wait(ctx, f.missing(f.quorum())); err != nil {
			return err
		}
		f.startAll(ctx, group, names.KubeAPIServer)
		return nil
	})
	group.Go(func() error {
		config, err := certificates.Issuer{Keys: f.keys, Clock: clock.RealClock{}}.RESTConfig(endpoint(f.config.Hosts[0]), "kubernetes-admin", []string{"system:masters"})
		if err != nil {
			return err
		}
		return probe.API(ctx, config, f.timeline)
	})
	group.Go(func() error { return f.timeline.Wait(ctx, f.missing(f.config.Shape.Usable())) })
	err := group.Wait()
	if cause := context.Cause(f.life); cause != nil {
		return cause
	}
	return err
}

// quorum is what kube-apiserver waits for.
func (f *floor) quorum() []timeline.Need {
	needs := make([]timeline.Need, 0, len(shape.Etcds))
	for _, component := range shape.Etcds {
		needs = append(needs, timeline.Need{
			Stage: timeline.Answers, Component: component, Count: int(f.config.Shape.Replicas(component))/2 + 1,
		})
	}
	return needs
}

func (f *floor) missing(needs []timeline.Need) func() string {
	return func() string { return f.timeline.Missing(needs) }
}

// startAll starts all processes of components at once, and watches for their readiness.
func (f *floor) startAll(ctx context.Context, group *errgroup.Group, components ...string) {
	for _, component := range components {
		for _, p := range f.processes {
			if p.Component != component {
				continue
			}
			f.start(p)
			group.Go(func() error {
				if err := probe.UntilOK(ctx, f.clients[p.host], p.URL); err != nil {
					return err
				}
				f.timeline.Mark(timeline.Answers, p.Component, p.Name)
				if component == names.KubeAPIServer {
					f.startOthers(ctx, group, p.host)
				}
				return nil
			})
		}
	}
}

// startOthers starts what runs beside a host's kube-apiserver.
func (f *floor) startOthers(ctx context.Context, group *errgroup.Group, h *host.Host) {
	for _, p := range f.processes {
		if p.host != h || (p.Component != names.KubeControllerManager && p.Component != names.KubeScheduler) {
			continue
		}
		f.start(p)
		group.Go(func() error {
			err := probe.UntilOK(ctx, f.clients[p.host], p.URL)
			if err == nil {
				f.timeline.Mark(timeline.Answers, p.Component, p.Name)
			}
			return err
		})
	}
}

// start starts a process; when it ends before the floor does, the floor fails with its last words.
func (f *floor) start(p *process) {
	f.timeline.Mark(timeline.Started, p.Component, p.Name)
	f.running.Add(1)
	go func() {
		defer f.running.Done()
		log, err := os.Create(p.log())
		if err == nil {
			err = p.host.Run(f.life, nil, log, log, p.Argv...)
			_ = log.Close()
		}
		if f.life.Err() == nil {
			f.end(&endedError{process: p, err: err})
		}
	}()
}

// endedError is a process that ended by itself.
type endedError struct {
	process *process
	// err is nil when its exit code was zero.
	err error
}

func (e *endedError) Error() string {
	how := "exit code 0"
	if e.err != nil {
		how = e.err.Error()
	}
	return fmt.Sprintf("%s on %s ended by itself (%s); its last words:\n%s",
		e.process.Name, e.process.host.Name, how, processes.LastLines(e.process.log(), 10))
}

func (e *endedError) Unwrap() error { return e.err }

func (p *process) log() string { return p.host.DiskPath(filepath.Join(directory, p.Name, "log")) }
