// Package packages installs packages of the distribution. It knows apt.
package packages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// Installer installs packages.
type Installer interface {
	// Missing are the packages that are not installed, or not in the wanted version.
	Missing(ctx context.Context, wanted []bootstrapv1.Package) ([]bootstrapv1.Package, error)
	Install(ctx context.Context, wanted []bootstrapv1.Package) error
}

// APT is the package manager of Debian and of distributions that are based on it.
type APT struct {
	// pause is the time before a command that met a lock is repeated, lockTime how long it is repeated. Unset, they have defaults.
	pause, lockTime time.Duration
}

// Other programs of the distribution, such as unattended-upgrades, hold the locks of apt and dpkg for minutes after a boot.
const (
	defaultPause    = 5 * time.Second
	defaultLockTime = 5 * time.Minute
)

// options make apt ask nothing, keep existing configuration, and wait while another apt runs.
var options = []string{
	"--yes", "--quiet", "--no-install-recommends", "--allow-downgrades",
	fmt.Sprintf("--option=DPkg::Lock::Timeout=%d", defaultLockTime/time.Second), "--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold",
}

var errNoAPT = errors.New("packages are installed with apt-get, and this machine has none; give the component a variant with an archive for it")

// Supported refuses machines with another package manager.
func (APT) Supported() error {
	for _, program := range []string{"apt-get", "dpkg", "dpkg-query"} {
		if _, err := exec.LookPath(program); err != nil {
			return software.Problemf(software.NoVariant, "", "%w", errNoAPT)
		}
	}
	return nil
}

// Missing implements Installer.
func (a APT) Missing(ctx context.Context, wanted []bootstrapv1.Package) ([]bootstrapv1.Package, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	if err := a.Supported(); err != nil {
		return nil, err
	}
	args := []string{"--show", "--showformat=${Package}\t${db:Status-Abbrev}\t${Version}\n", "--"}
	for _, p := range wanted {
		args = append(args, p.Name)
	}
	// dpkg-query fails when it does not know one of the packages, but prints the others.
	output, err := exec.CommandContext(ctx, "dpkg-query", args...).Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("read which packages are installed: %w", err)
	}
	return missing(wanted, string(output)), nil
}

// missing reads the lines of dpkg-query: name, state, version.
func missing(wanted []bootstrapv1.Package, installed string) []bootstrapv1.Package {
	versions := map[string]string{}
	for line := range strings.Lines(installed) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) == 3 && strings.HasPrefix(fields[1], "ii") || len(fields) == 3 && strings.HasPrefix(fields[1], "hi") {
			versions[fields[0]] = fields[2]
		}
	}
	var left []bootstrapv1.Package
	for _, p := range wanted {
		if version, ok := versions[p.Name]; !ok || p.Version != "" && p.Version != version {
			left = append(left, p)
		}
	}
	return left
}

// Install implements Installer. It first ends what an earlier run of dpkg left undone.
func (a APT) Install(ctx context.Context, wanted []bootstrapv1.Package) error {
	if err := a.Supported(); err != nil {
		return err
	}
	if err := a.run(ctx, "dpkg", "--force-confdef", "--force-confold", "--configure", "--pending"); err != nil {
		return err
	}
	if err := a.run(ctx, "apt-get", append([]string{"update"}, options[1], options[4])...); err != nil {
		return err
	}
	return a.run(ctx, "apt-get", installArgs(wanted)...)
}

func installArgs(wanted []bootstrapv1.Package) []string {
	args := append([]string{"install"}, options...)
	args = append(args, "--")
	for _, p := range wanted {
		name := p.Name
		if p.Version != "" {
			name += "=" + p.Version
		}
		args = append(args, name)
	}
	return args
}

// maxOutput is how much of the end of an output an error has.
const maxOutput = 800

// held matches what dpkg and apt say when another process holds a lock. There is no other sign of it: dpkg cannot wait, and its
// exit status 2, as 100 of apt-get, is that of other errors, too. apt waits for the locks of dpkg, but not for those of its lists
// and of its downloads. dpkg has said "is locked" and "was locked", by "another process" or by a name.
var held = regexp.MustCompile(`(?m)^dpkg: error: .+ (is|was) locked by |^E: Could not get lock `)

// run runs a command, and repeats it while another process holds a lock that it needs.
func (a APT) run(ctx context.Context, program string, args ...string) error {
	end := time.Now().Add(cmp.Or(a.lockTime, defaultLockTime))
	for {
		locked, err := once(ctx, program, args...)
		if !locked || !time.Now().Before(end) {
			return err
		}
		select {
		case <-time.After(cmp.Or(a.pause, defaultPause)):
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// once runs a command, and says whether it failed because of a lock.
func once(ctx context.Context, program string, args ...string) (locked bool, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	// When the context ends, apt is interrupted and may end by itself: a kill would leave packages half configured.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 0
	output, err := cmd.CombinedOutput()
	if err == nil {
		return false, nil
	}
	locked = held.Match(output)
	output = bytes.TrimSpace(output)
	if len(output) > maxOutput {
		output = output[len(output)-maxOutput:]
	}
	return locked, fmt.Errorf("%s %s: %w: %s", program, args[0], err, strings.ToValidUTF8(string(bytes.ReplaceAll(output, []byte("\n"), []byte(" | "))), ""))
}

// Where the files of repositories are.
const (
	sourcesDir = "/etc/apt/sources.list.d/"
	keysDir    = "/etc/apt/keyrings/"
)

// RepositoryFiles are the files that add repositories to apt. A key is trusted for its own repository only.
func RepositoryFiles(repositories []bootstrapv1.PackageRepository) map[string]string {
	files := map[string]string{}
	for _, r := range repositories {
		line := strings.TrimSpace(r.Source)
		if r.Key != "" {
			key := keysDir + "kok-software-" + r.Name + ".asc"
			files[key] = strings.TrimSpace(r.Key) + "\n"
			line = signedBy(line, key)
		}
		files[sourcesDir+r.Name+".list"] = line + "\n"
	}
	return files
}

// signedBy adds the key to the options of a line of sources.list(5), unless it names one itself.
func signedBy(line, key string) string {
	kind, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	inner, after, has := strings.Cut(strings.TrimPrefix(rest, "["), "]")
	if !strings.HasPrefix(rest, "[") || !has {
		return kind + " [signed-by=" + key + "] " + rest
	}
	if strings.Contains(strings.ToLower(inner), "signed-by") {
		return line
	}
	return kind + " [" + strings.TrimSpace(inner) + " signed-by=" + key + "] " + strings.TrimSpace(after)
}
