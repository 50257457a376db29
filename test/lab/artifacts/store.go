package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// storeConfig runs containerd for its image store alone, beside whatever else the machine runs.
const storeConfig = `version = 2
root = %q
state = %q
temp = %q
disabled_plugins = [
  "io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.restart", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = %q
[debug]
  level = "warn"
`

// buildStore imports the images into a containerd store of its own, which hosts get a copy of as /var/lib/containerd. It is done with the containerd that the hosts run, once for a set of images.
func buildStore(ctx context.Context, cache, debian string, images []Image, progress func(string)) (string, error) {
	dir := filepath.Join(cache, "store", key(debian, imageList(images)))
	if exists(dir) {
		return dir, nil
	}
	progress(fmt.Sprintf("unpack %d container images (once for this set)", len(images)))
	err := publish(dir, func(tmp string) error {
		state, err := os.MkdirTemp("", "kok-store-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(state)
		s := store{debian: debian, root: tmp, state: state}
		if err := s.fill(ctx, images); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(tmp, imagesFile), []byte(imageList(images)), 0o644)
	})
	if err != nil {
		return "", fmt.Errorf("unpack the container images: %w", err)
	}
	return dir, nil
}

// imagesFile lists, in containerd's own folder, what the lab put there.
const imagesFile = "kok-images"

// imageList has a line for each image: its name and its key.
func imageList(images []Image) string {
	var b strings.Builder
	for _, i := range images {
		fmt.Fprintf(&b, "%s %s\n", i.Name, i.Key())
	}
	return b.String()
}

// store is a containerd that this process started.
type store struct {
	debian, root, state string
}

func (s store) address() string { return filepath.Join(s.state, "containerd.sock") }

// fill starts containerd, imports the images one after the other and stops containerd.
func (s store) fill(ctx context.Context, images []Image) (err error) {
	config := filepath.Join(s.state, "config.toml")
	text := fmt.Sprintf(storeConfig, s.root, filepath.Join(s.state, "run"), filepath.Join(s.state, "tmp"), s.address())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.state, "log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // only a log
	// The daemon ends with the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	daemon := s.program(context.WithoutCancel(ctx), "containerd", "--config", config)
	daemon.Stdout, daemon.Stderr = log, log
	// Mounts that containerd makes while it unpacks end with it, and it ends with this process.
	daemon.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := daemon.Start(); err != nil {
		return err
	}
	defer func() {
		stopErr := daemon.Process.Signal(syscall.SIGTERM)
		if errors.Is(stopErr, os.ErrProcessDone) {
			stopErr = nil
		}
		if err = errors.Join(err, stopErr, daemon.Wait()); err != nil {
			text, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("%w\n%s", err, tail(string(text), 20))
		}
	}()
	if err := s.ready(ctx); err != nil {
		return err
	}
	for _, i := range images {
		if err := s.load(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (s store) ready(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return s.ctl(ctx, "version").Run() == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	return nil
}

// load streams an image into the store.
func (s store) load(ctx context.Context, i Image) error {
	cmd := s.ctl(ctx, importArguments...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err
	}
	writeErr := i.Write(in)
	if err := errors.Join(writeErr, in.Close(), cmd.Wait()); err != nil {
		return fmt.Errorf("import image %s: %w\n%s", i.Name, err, tail(out.String(), 5))
	}
	return nil
}

// importArguments of ctr: it reads the archive from standard input, and unpacks it for containers to run.
var importArguments = []string{"--namespace", "k8s.io", "images", "import", "-"}

func (s store) ctl(ctx context.Context, args ...string) *exec.Cmd {
	return s.program(ctx, "ctr", append([]string{"--address", s.address()}, args...)...)
}

// program runs a program of the Debian system with that system's own loader and libraries.
func (s store) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	loader := filepath.Join(s.debian, "lib64/ld-linux-x86-64.so.2")
	prefix := []string{"--library-path", filepath.Join(s.debian, "lib/x86_64-linux-gnu"), filepath.Join(s.debian, "usr/bin", name)}
	return exec.CommandContext(ctx, loader, append(prefix, args...)...)
}

// Host is where images are loaded.
type Host interface {
	// Exec runs a command inside the host and returns its standard output.
	Exec(ctx context.Context, stdin io.Reader, argv ...string) ([]byte, error)
	// DiskPath is where a file of the host lies on this machine.
	DiskPath(path string) string
	// WriteFile writes a file of the host.
	WriteFile(path string, data []byte, mode fs.FileMode) error
}

// LoadImages imports the set's images that the host's disk was not made with, into its running containerd. Images of
// the same name are replaced; containers that run keep what they have.
func (s *Set) LoadImages(ctx context.Context, host Host, progress func(string)) error {
	list := "/var/lib/containerd/" + imagesFile
	there, err := os.ReadFile(host.DiskPath(list))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	want := imageList(s.Images)
	if string(there) == want {
		return nil
	}
	have := strings.Split(string(there), "\n")
	for _, i := range s.Images {
		if slices.Contains(have, i.Name+" "+i.Key()) {
			continue
		}
		progress("import image " + i.Name)
		if err := load(ctx, host, i); err != nil {
			return err
		}
	}
	return host.WriteFile(list, []byte(want), 0o644)
}

// load streams an image into a running host.
func load(ctx context.Context, host Host, i Image) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(i.Write(w)) }()
	defer r.Close() //nolint:errcheck // a pipe's Close returns no error
	if _, err := host.Exec(ctx, r, append([]string{"ctr"}, importArguments...)...); err != nil {
		return fmt.Errorf("import image %s: %w", i.Name, err)
	}
	return nil
}
