package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/daemon"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

// ownName is what the lab knows its own mirror by.
const ownName = "mirror"

// Ports of the lab's own mirror. Templates that cannot change name them: they are the same when it starts again.
const (
	ownHTTPSPort = 9443
	ownHTTPPort  = 9080
)

// startLimit bounds how long the lab's own mirror takes to have all images.
const startLimit = 5 * time.Minute

// serving is what the lab's own mirror writes down when it has everything.
type serving struct {
	// PID is its process; Key says what it has.
	PID int    `json:"pid"`
	Key string `json:"key"`
	// URL and PlainURL are those of the Mirror.
	URL      string `json:"url"`
	PlainURL string `json:"plainURL"`
}

// Own says what the lab's own mirror has: one process, which serves for as long as the lab is up. Workers that are made later,
// and pods that start later, need it as well.
type Own struct {
	Sources
	// ProgramImages are static programs that are images too, by the names of the images.
	ProgramImages map[string]string
}

// Serve makes this process the lab's own mirror, until the context ends or the lab goes down. It calls ready when all is there.
func (o Own) Serve(ctx context.Context, l *lab.Lab, ready func(m *Mirror, content Content) error, progress func(string)) error {
	if err := l.BecomeProgram(ctx, ownName); err != nil {
		return err
	}
	folder := filepath.Join(l.ProgramFolder(ownName), "content")
	if err := os.RemoveAll(folder); err != nil { // of a mirror before this one
		return err
	}
	if err := o.addImages(ctx, l, progress); err != nil {
		return err
	}
	key, err := o.key()
	if err != nil {
		return err
	}
	content, err := Prepare(ctx, folder, o.Sources, progress)
	if err != nil {
		return err
	}
	content.Scratch = folder
	m, err := startOn(ctx, l, portRange{ownHTTPSPort, 1}, portRange{ownHTTPPort, 1}, content)
	if err != nil {
		return err
	}
	if err := errors.Join(note(l, serving{PID: os.Getpid(), Key: key, URL: m.URL, PlainURL: m.PlainURL}), ready(m, content)); err != nil {
		return errors.Join(err, m.Close())
	}
	<-ctx.Done()
	return errors.Join(m.Close(), os.RemoveAll(folder))
}

// Start has the lab's own mirror run with what o says, as a process of the program lab, which outlives the caller. One that has
// the same runs on; one that has something else is ended. What is missing of upstream's programs is built first. Such a
// mirror has no packages. The function that it returns waits until the mirror has everything.
func (o Own) Start(ctx context.Context, l *lab.Lab, program string, progress func(string)) (complete func(context.Context) (*Mirror, error), err error) {
	o.WithoutPackages = true
	cache, err := artifacts.CacheDir()
	if err != nil {
		return nil, err
	}
	upstream, err := artifacts.EnsureUpstream(ctx, cache, o.Kubernetes, progress)
	if err != nil {
		return nil, err
	}
	if err := o.addImages(ctx, l, progress); err != nil {
		return nil, err
	}
	key, err := o.key()
	if err != nil {
		return nil, err
	}
	running := func() (*Mirror, error) { return o.attach(l, key, upstream) }
	if m, err := running(); m != nil || err != nil {
		return func(context.Context) (*Mirror, error) { return m, nil }, err
	}
	if err := l.EndProgram(ctx, ownName); err != nil {
		return nil, err
	}
	progress("start the mirror of the data centre, and give it the images of workers")
	d, err := o.spawn(ctx, l, program)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*Mirror, error) {
		var m *Mirror
		err := until(ctx, d, func() (found bool, err error) {
			m, err = running()
			return m != nil, err
		})
		return m, err
	}, nil
}

// spawn starts a mirror, and waits until the lab knows it: from then on it goes with the lab.
func (o Own) spawn(ctx context.Context, l *lab.Lab, program string) (*daemon.Daemon, error) {
	if err := os.MkdirAll(l.ProgramFolder(ownName), 0o700); err != nil {
		return nil, err
	}
	d, err := daemon.Start(l.ProgramLog(ownName), append([]string{program}, o.arguments()...)...)
	if err != nil {
		return nil, err
	}
	return d, until(ctx, d, func() (bool, error) {
		pid, err := l.Program(ownName)
		return pid == d.PID(), err
	})
}

// until waits for a state of a mirror that was started, for as long as it runs.
func until(ctx context.Context, d *daemon.Daemon, reached func() (bool, error)) error {
	err := d.While(ctx, func(ctx context.Context) error {
		return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startLimit, true, func(context.Context) (bool, error) { return reached() })
	})
	if err != nil {
		return fmt.Errorf("wait for the mirror of the data centre: %w", err)
	}
	return nil
}

// attach is the lab's own mirror, if it runs and has what a key says.
func (o Own) attach(l *lab.Lab, key string, upstream *artifacts.Upstream) (*Mirror, error) {
	pid, err := l.Program(ownName)
	if err != nil || pid == 0 {
		return nil, err
	}
	last, err := noted(l)
	if err != nil || last.PID != pid || last.Key != key {
		return nil, err
	}
	_, authority, err := l.RouterCertificate()
	if err != nil {
		return nil, err
	}
	return &Mirror{
		URL: last.URL, PlainURL: last.PlainURL, CABundle: string(authority), client: clientOf(authority),
		content: Content{Upstream: upstream, ReleaseVersion: o.ReleaseVersion},
	}, nil
}

func noteFile(l *lab.Lab) string { return filepath.Join(l.ProgramFolder(ownName), "serving.json") }

// note writes down what is served, whole or not at all.
func note(l *lab.Lab, s serving) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(noteFile(l)+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(noteFile(l)+".new", noteFile(l))
}

// noted is what was written down last; empty if nothing was.
func noted(l *lab.Lab) (s serving, err error) {
	data, err := os.ReadFile(noteFile(l))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", noteFile(l), err)
	}
	return s, nil
}
