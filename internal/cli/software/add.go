package software

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/access"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/giveaway"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/versions"
)

const addLong = `Describe the software of workers of one Kubernetes version, as a KOKSoftware: containerd, runc, CNI plugins, kubelet, and this
project's own programs.

Every file is downloaded once and compared with the SHA-256 that its project publishes beside it; the KOKSoftware has the
digests. Machines download the files themselves, from the projects' servers, or from the mirror that --from names. A mirror
keeps the servers' names and paths: <mirror>/dl.k8s.io/release/v1.36.3/bin/linux/amd64/kubelet. The
digest of a file that its project does not have, and of every file with --exclusive, is the mirror's word.

The name is software-<version> unless --name says otherwise. KOKConfigTemplates with the mode KOKSoftware find it by the
version of a Machine. The same command again changes nothing; what is described under a name does not change, but for its
mirrors.`

const addExample = `  # What upstreams publish
  kok software add v1.36.3

  # From a mirror alone, for a site without the internet; its password is in a Secret of type kubernetes.io/basic-auth
  kok software add v1.36.3 --from https://mirror.example.com/upstream --exclusive --ca-file mirror-ca.crt --secret mirror

  # Look at it first, or keep it in Git
  kok software add v1.36.3 --architectures amd64,arm64 --dry-run > software-v1.36.3.yaml`

// adder is one run of software add.
type adder struct {
	cluster  *access.Cluster
	versions Versions

	name, from, caFile, secret, configFile string
	architectures                          []string
	exclusive, dryRun                      bool
	settings                               settings
	caBundle                               string
}

func newAdd(cluster *access.Cluster) *cobra.Command {
	a := &adder{cluster: cluster, versions: Tested}
	command := &cobra.Command{
		Use: "add VERSION", Short: "Describe the software of workers of a Kubernetes version",
		Long: addLong, Example: addExample, Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			a.versions.Kubernetes = args[0]
			return cluster.Explain(a.run(command.Context()))
		},
	}
	flags := command.Flags()
	flags.StringVar(&a.name, "name", "", "Name of the KOKSoftware; software-VERSION if empty.")
	flags.StringVar(&a.from, "from", "", "URL of a mirror, below which files are as on the projects' servers, for example https://mirror.example.com/upstream.")
	flags.BoolVar(&a.exclusive, "exclusive", false, "Machines download from the mirror only, and never from the projects' servers.")
	flags.StringVar(&a.caFile, "ca-file", "", "File with the certificate authority of the mirror, as PEM; the system's if empty.")
	flags.StringVar(&a.secret, "secret", "", "Secret of type kubernetes.io/basic-auth, with the label "+giveaway.Label+"=true, with the user and the password of the mirror.")
	flags.StringSliceVar(&a.architectures, "architectures", []string{"amd64"}, "Architectures of machines: amd64, arm64.")
	flags.StringVar(&a.versions.Containerd, "containerd", Tested.Containerd, "Version of containerd.")
	flags.StringVar(&a.versions.Runc, "runc", Tested.Runc, "Version of runc.")
	flags.StringVar(&a.versions.CNIPlugins, "cni-plugins", Tested.CNIPlugins, "Version of the CNI plugins.")
	flags.StringVar(&a.versions.Release, "release", version.Get().GitVersion, "Release of this project whose kok-software and kok-apiserver-lb are taken.")
	flags.StringVar(&a.configFile, "containerd-config", "", "File with containerd's configuration; one in which systemd manages cgroups if empty.")
	flags.StringSliceVar(&a.settings.modules, "modules", []string{"overlay", "br_netfilter"}, "Modules of the kernel that are loaded.")
	flags.StringToStringVar(&a.settings.sysctls, "sysctls", map[string]string{"net.ipv4.ip_forward": "1"}, "Settings of the kernel.")
	flags.BoolVar(&a.dryRun, "dry-run", false, "Print the KOKSoftware as YAML, and make nothing.")
	return command
}

func (a *adder) run(ctx context.Context) error {
	if err := a.check(); err != nil {
		return err
	}
	namespace, _, err := a.cluster.Namespace()
	if err != nil {
		return err
	}
	described := &bootstrapv1.KOKSoftware{}
	described.SetGroupVersionKind(bootstrapv1.GroupVersion.WithKind("KOKSoftware"))
	described.Namespace, described.Name = namespace, a.name
	if described.Spec, err = a.describe(ctx, namespace); err != nil {
		return err
	}
	if a.dryRun {
		return a.print(described)
	}
	return a.apply(ctx, described)
}

// check completes the flags and refuses those that cannot work.
func (a *adder) check() error {
	for _, v := range []struct{ what, value string }{
		{"VERSION", a.versions.Kubernetes}, {"--containerd", a.versions.Containerd}, {"--runc", a.versions.Runc},
		{"--cni-plugins", a.versions.CNIPlugins}, {"--release", a.versions.Release},
	} {
		if _, err := versions.Parse(v.value); err != nil {
			return fmt.Errorf("%s: %w", v.what, err)
		}
	}
	if a.name == "" {
		a.name = bootstrapv1.DefaultSoftwareByVersion + "-" + a.versions.Kubernetes
	}
	if a.from == "" && (a.exclusive || a.caFile != "" || a.secret != "") {
		return errors.New("--exclusive, --ca-file and --secret are about a mirror; name it by --from")
	}
	for _, architecture := range a.architectures {
		if architecture != "amd64" && architecture != "arm64" {
			return fmt.Errorf("--architectures: %q is none that machines can have; use amd64 or arm64", architecture)
		}
	}
	if a.from != "" {
		mirror, err := url.Parse(a.from)
		if err != nil || mirror.Scheme != "https" && mirror.Scheme != "http" || mirror.Host == "" || mirror.User != nil {
			return errors.New("--from must be a URL that starts with https:// or http://, without a password; name that by --secret")
		}
	}
	a.settings.containerdConfig = containerdConfig
	for _, file := range []struct {
		path string
		to   *string
	}{{a.configFile, &a.settings.containerdConfig}, {a.caFile, &a.caBundle}} {
		if file.path == "" {
			continue
		}
		content, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		*file.to = string(content)
	}
	return nil
}

// describe downloads every file and compares it with its published SHA-256.
func (a *adder) describe(ctx context.Context, namespace string) (bootstrapv1.KOKSoftwareSpec, error) {
	none := bootstrapv1.KOKSoftwareSpec{}
	a.settings.mirrors = a.mirrors()
	reading, err := a.readable(ctx, namespace)
	if err != nil {
		return none, err
	}
	reader, err := newReader(reading, a.caBundle, a.exclusive)
	if err != nil {
		return none, err
	}
	var files []checked
	for _, architecture := range a.architectures {
		for _, file := range a.versions.files(bootstrapv1.Architecture(architecture)) {
			started := time.Now()
			read, size, err := reader.check(ctx, file, bootstrapv1.Architecture(architecture))
			if err != nil {
				return none, fmt.Errorf("%s for %s: %w", file.component, architecture, err)
			}
			a.say("%s for %s: %d MiB in %.1f s, SHA-256 as %s", file.component, architecture, size>>20, time.Since(started).Seconds(), read.witness)
			files = append(files, read)
		}
	}
	return describe(files, a.settings), nil
}

// mirrors are those that the KOKSoftware has.
func (a *adder) mirrors() []bootstrapv1.SoftwareMirror {
	if a.from == "" {
		return nil
	}
	var mirrors []bootstrapv1.SoftwareMirror
	for _, server := range []string{kubernetesServer, projectsServer} {
		endpoint := bootstrapv1.SoftwareEndpoint{
			URL: strings.TrimSuffix(a.from, "/") + "/" + strings.TrimPrefix(server, "https://"), CABundle: a.caBundle,
			SecretRef: bootstrapv1.SecretReference{Name: a.secret},
		}
		mirror := bootstrapv1.SoftwareMirror{Prefix: server, Endpoints: []bootstrapv1.SoftwareEndpoint{endpoint}}
		if a.exclusive {
			mirror.Exclusive = ptr.To(true)
		}
		mirrors = append(mirrors, mirror)
	}
	return mirrors
}

// readable are the mirrors with the password from the Secret, so that files can be read from them.
func (a *adder) readable(ctx context.Context, namespace string) ([]software.Mirror, error) {
	secret := &corev1.Secret{}
	if a.secret != "" {
		reader, err := a.cluster.Client()
		if err != nil {
			return nil, err
		}
		if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: a.secret}, secret); err != nil {
			return nil, fmt.Errorf("read Secret %s with the password of the mirror: %w", a.secret, err)
		}
		if refused := giveaway.Refused(secret); refused != "" {
			return nil, errors.New(refused)
		}
	}
	var mirrors []software.Mirror
	for _, mirror := range a.settings.mirrors {
		mirrors = append(mirrors, software.Mirror{Prefix: mirror.Prefix, Exclusive: a.exclusive, Endpoints: []software.Endpoint{{
			URL:      mirror.Endpoints[0].URL,
			Username: string(secret.Data[corev1.BasicAuthUsernameKey]), Password: string(secret.Data[corev1.BasicAuthPasswordKey]),
		}}})
	}
	return mirrors, nil
}

func (a *adder) print(described *bootstrapv1.KOKSoftware) error {
	text, err := yaml.Marshal(described)
	if err != nil {
		return err
	}
	_, err = a.cluster.Out.Write(text)
	return err
}

// apply makes the KOKSoftware, or changes the mirrors of the existing one.
func (a *adder) apply(ctx context.Context, described *bootstrapv1.KOKSoftware) error {
	writer, err := a.cluster.Client()
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(described)
	existing := &bootstrapv1.KOKSoftware{}
	err = writer.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) {
		if err := writer.Create(ctx, described); err != nil {
			return fmt.Errorf("create KOKSoftware %s: %w", key, err)
		}
		a.say("KOKSoftware %s is created", key)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read KOKSoftware %s: %w", key, err)
	}
	changed := existing.DeepCopy()
	changed.Spec.Mirrors = described.Spec.Mirrors
	if !apiequality.Semantic.DeepEqual(changed.Spec, described.Spec) {
		return fmt.Errorf("KOKSoftware %s is there and describes other software, which cannot change; choose another --name", key)
	}
	if apiequality.Semantic.DeepEqual(existing.Spec, changed.Spec) {
		a.say("KOKSoftware %s is there already", key)
		return nil
	}
	if err := writer.Update(ctx, changed); err != nil {
		return fmt.Errorf("change the mirrors of KOKSoftware %s: %w", key, err)
	}
	a.say("KOKSoftware %s has other mirrors now", key)
	return nil
}

func (a *adder) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.cluster.ErrOut, format+"\n", args...)
}
