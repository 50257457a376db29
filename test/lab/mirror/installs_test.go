//go:build lab

package mirror

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// TestBareHostsInstallThemselves has kok-software install on a host of each system all that a worker needs but kubelet, which
// has no cluster here, and take it away again.
func TestBareHostsInstallThemselves(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(session, 30*time.Minute)
	defer cancel()
	s := newSite(ctx, t, "kokin")
	content, err := Prepare(ctx, t.TempDir(), Sources{Programs: filepath.Join("..", "..", "..", "bin"), ReleaseVersion: "v0.1.0"}, func(step string) { t.Log(step) })
	g.Expect(err).NotTo(HaveOccurred())
	first, second := s.mirror(ctx, t, content), s.mirror(ctx, t, content)
	for _, system := range artifacts.BareSystems() {
		i := &installing{first: first, second: second, host: s.boot(ctx, t, system)}
		t.Run(system, func(t *testing.T) { i.test(ctx, t) })
	}
}

// installing is a host that installs its software.
type installing struct {
	first, second *Mirror
	host          *host.Host
}

func (i *installing) test(ctx context.Context, t *testing.T) {
	before := i.state(ctx, t)
	runcPath := PathOf(i.first.components(kubernetes)[0].Variants[0].Archive.URLs[0])
	for name, test := range map[string]struct {
		mirrors []*Mirror
		change  func(*software.Document)
		cause   func(t *testing.T)
		reason  software.Reason
		says    []string
		// avoided is the mirror that another one was used in place of.
		avoided *Mirror
	}{
		"get all from a mirror":                        {},
		"use the second mirror when the first is away": {mirrors: []*Mirror{i.second}, cause: i.misbehaves(i.first, runcPath, Away), avoided: i.first},
		"use the second mirror when the first ends early": {
			mirrors: []*Mirror{i.second}, cause: i.misbehaves(i.first, runcPath, EndEarly), avoided: i.first,
		},
		"say that a mirror lies":        {cause: i.misbehaves(i.first, runcPath, Lie), reason: software.NoSource, says: []string{runcPath, "SHA-256"}},
		"say that a mirror is away":     {cause: i.misbehaves(i.first, runcPath, Away), reason: software.NoSource, says: []string{runcPath}},
		"say that a mirror ends early":  {cause: i.misbehaves(i.first, runcPath, EndEarly), reason: software.NoSource, says: []string{runcPath}},
		"say that a mirror stalls":      {cause: i.misbehaves(i.first, runcPath, Stall), reason: software.NoSource, says: []string{runcPath}},
		"say that a password is wanted": {cause: i.misbehaves(i.first, runcPath, AskPassword), reason: software.NoSource, says: []string{runcPath, "401"}},
		"say that a disk is full":       {cause: func(t *testing.T) { i.fill(ctx, t) }, reason: software.NoRoom, says: []string{"/opt/"}},
		"say that they are of no known distribution": {
			cause: func(t *testing.T) { i.becomeUnknown(t) }, reason: software.NoVariant, says: []string{"plan9 4"},
		},
		"say that a container runtime does not start": {
			change: func(d *software.Document) {
				d.Components = slices.Clone(d.Components)
				for at := range d.Components {
					if c := &d.Components[at]; c.Name == Containerd {
						c.Files = []bootstrapv1.SoftwareFile{{Path: c.Files[0].Path, Content: ptr.To("version = 99\n"), Mode: "0644"}}
						c.Check.TimeoutSeconds = 10
					}
				}
			},
			reason: software.NotWorking, says: []string{"containerd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			document := i.document(ctx, t, test.mirrors...)
			if test.change != nil {
				test.change(document)
			}
			t.Run("at first", func(t *testing.T) {
				if test.cause != nil {
					test.cause(t)
				}
				result := i.install(ctx, t, document)
				NewWithT(t).Expect(result.Reason).To(Equal(test.reason), result.Message)
				for _, part := range test.says {
					NewWithT(t).Expect(result.Message).To(ContainSubstring(part))
				}
				if test.avoided != nil {
					NewWithT(t).Expect(result.Avoided).To(ContainElement(HavePrefix(test.avoided.URL + runcPath + ": ")))
				}
				if test.reason == "" {
					i.expectWorks(ctx, t)
				}
				i.exec(ctx, t, software.Program, "remove")
				i.exec(ctx, t, "rm", "-r", filepath.Dir(software.DocumentFile), "/etc/lab-ca.crt") // as bootstrap data wrote them
				i.exec(ctx, t, "dpkg", "--purge", Balancer)                                        // Packages stay, as documented.
			})
			after := i.state(ctx, t)
			for what := range before {
				was, is := sets.New(strings.Split(before[what], "\n")...), sets.New(strings.Split(after[what], "\n")...)
				g.Expect(sets.List(was.Difference(is))).To(BeEmpty(), "%s that are gone", what)
				g.Expect(sets.List(is.Difference(was))).To(BeEmpty(), "%s that came", what)
			}
		})
	}
}

func (i *installing) misbehaves(m *Mirror, path string, fault Fault) func(*testing.T) {
	return func(t *testing.T) { t.Cleanup(m.Misbehave(path, fault)) }
}

func (i *installing) exec(ctx context.Context, t *testing.T, argv ...string) string {
	t.Helper()
	output, err := i.host.Exec(ctx, nil, argv...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(output)
}

// document is what the bootstrap data of a machine have.
func (i *installing) document(ctx context.Context, t *testing.T, others ...*Mirror) *software.Document {
	t.Helper()
	g := NewWithT(t)
	described, err := i.first.software(ctx, "here", "workers", kubernetes, i.first.without(kubernetes, Kubelet), others...)
	g.Expect(err).NotTo(HaveOccurred())
	d := &software.Document{Name: described.Name, Version: kubernetes, Components: described.Spec.Components, Kernel: described.Spec.Kernel}
	for _, m := range described.Spec.Mirrors {
		of := software.Mirror{Prefix: m.Prefix, Exclusive: *m.Exclusive}
		for _, e := range m.Endpoints {
			of.Endpoints = append(of.Endpoints, software.Endpoint{URL: e.URL, CABundle: e.CABundle})
		}
		d.Mirrors = append(d.Mirrors, of)
	}
	return d
}

// without are the components but one.
func (m *Mirror) without(version, name string) []bootstrapv1.SoftwareComponent {
	all := m.components(version)
	return slices.DeleteFunc(all, func(c bootstrapv1.SoftwareComponent) bool { return c.Name == name })
}

// install runs the program, which it downloads first, as a machine does.
func (i *installing) install(ctx context.Context, t *testing.T, d *software.Document) (result software.Result) {
	t.Helper()
	g := NewWithT(t)
	content, err := json.Marshal(d)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(i.host.WriteFile(software.DocumentFile, content, 0o600)).To(Succeed())
	g.Expect(i.host.WriteFile("/etc/lab-ca.crt", []byte(i.first.CABundle), 0o644)).To(Succeed())
	i.exec(ctx, t, "mkdir", "-p", filepath.Dir(software.Program))
	i.exec(ctx, t, "curl", "--fail", "--silent", "--cacert", "/etc/lab-ca.crt", "--output", software.Program,
		i.first.at(i.first.releaseURL(installer)))
	i.exec(ctx, t, "chmod", "0755", software.Program)
	_, failed := i.host.Exec(ctx, nil, software.Program, "install", "--stall-time=3s")
	g.Expect(json.Unmarshal([]byte(i.exec(ctx, t, "cat", software.ResultFile)), &result)).To(Succeed())
	if result.Reason == "" {
		g.Expect(failed).NotTo(HaveOccurred())
	} else {
		g.Expect(failed).To(HaveOccurred(), "%s: %s", result.Reason, result.Message)
	}
	return result
}

// expectWorks runs what was installed.
func (i *installing) expectWorks(ctx context.Context, t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(i.exec(ctx, t, "ctr", "version")).To(ContainSubstring(i.first.content.Upstream.Containerd))
	g.Expect(i.exec(ctx, t, "runc", "--version")).To(ContainSubstring(strings.TrimPrefix(i.first.content.Upstream.Runc, "v")))
	i.exec(ctx, t, Balancer, "--help")
	_, notPackaged := i.host.Exec(ctx, nil, "dpkg-query", "--status", Balancer)
	g.Expect(notPackaged == nil).To(Equal(i.host.System == "debian-12"), "package %s", Balancer)
}

// fill leaves room for the program, and for little else.
func (i *installing) fill(ctx context.Context, t *testing.T) {
	t.Helper()
	i.exec(ctx, t, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", "/opt")
	t.Cleanup(func() { i.exec(context.WithoutCancel(ctx), t, "umount", "/opt") })
}

func (i *installing) becomeUnknown(t *testing.T) {
	t.Helper()
	const path = "/etc/os-release"
	g := NewWithT(t)
	g.Expect(i.host.WriteFile(path, []byte("ID=plan9\nVERSION_ID=4\n"), 0o644)).To(Succeed())
	t.Cleanup(func() { g.Expect(i.host.Symlink("../usr/lib/os-release", path)).To(Succeed()) })
}

// state is what the host has, as far as an installation may change it.
func (i *installing) state(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	find := []string{"find", "/etc", "/usr", "/opt", "/root", "-not", "-type", "d"}
	return map[string]string{
		"files":    i.exec(ctx, t, append(find, "-printf", `%p %y %m %U:%G %l\n`)...),
		"contents": i.exec(ctx, t, "find", "/etc", "-type", "f", "-exec", "sha256sum", "{}", "+"),
		"units":    i.exec(ctx, t, "systemctl", "list-unit-files", "--no-legend", "--no-pager"),
		"packages": i.exec(ctx, t, "dpkg-query", "--show"),
	}
}
