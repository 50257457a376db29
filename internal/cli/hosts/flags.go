package hosts

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

// serverFlags are the flags of one SSH server.
type serverFlags struct {
	address, user, keyFile, keySecret string
	port                              int32
	fingerprints                      []string
}

// addFlags are the flags of hosts add.
type addFlags struct {
	target, bastion serverFlags
	labels          map[string]string
	failureDomain   string
	yes             bool
	timeout         time.Duration
}

func (f *addFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.target.address, "address", "", "IP address or DNS name of the host.")
	flags.Int32Var(&f.target.port, "port", 22, "TCP port of its SSH server.")
	flags.StringVar(&f.target.user, "user", "", "Who logs in: root, or a user who may become root by sudo without a password.")
	flags.StringVar(&f.target.keyFile, "key", "", "File with the private key of that user. It must have no passphrase: nobody could type it for the controller.")
	flags.StringVar(&f.target.keySecret, "key-secret", "", "Secret for that key, by default NAME-ssh. One that has the same key is used.")
	flags.StringArrayVar(&f.target.fingerprints, "fingerprint", nil, "SHA256:... of a host key, as ssh-keygen -l shows it; may be repeated. These keys are taken and no others, and nobody is asked.")
	flags.StringVar(&f.bastion.address, "bastion-address", "", "IP address or DNS name of a bastion through which the host is reached.")
	flags.Int32Var(&f.bastion.port, "bastion-port", 22, "TCP port of the bastion's SSH server.")
	flags.StringVar(&f.bastion.user, "bastion-user", "", "Who logs in to the bastion.")
	flags.StringVar(&f.bastion.keyFile, "bastion-key", "", "File with the private key of that user, by default the host's key.")
	flags.StringVar(&f.bastion.keySecret, "bastion-key-secret", "", "Secret for that key, by default NAME-bastion-ssh, or the host's Secret for the host's key.")
	flags.StringArrayVar(&f.bastion.fingerprints, "bastion-fingerprint", nil, "SHA256:... of a host key of the bastion; may be repeated.")
	flags.StringToStringVar(&f.labels, "label", nil, "Label of the IDCHost as key=value, by which machines choose it; may be repeated.")
	flags.StringVar(&f.failureDomain, "failure-domain", "", "The part of the data centre that fails together with the host, for example its rack.")
	flags.BoolVar(&f.yes, "yes", false, "Trust the host keys that are shown, without being asked.")
	flags.DurationVar(&f.timeout, "timeout", defaultTimeout, "How long to wait until the host can be used; 0 does not wait.")
	for _, name := range []string{"address", "user", "key"} {
		if err := command.MarkFlagRequired(name); err != nil {
			panic(err) // It is a flag of this command.
		}
	}
}

// check refuses flags that cannot work, without a request to the API server, and fills in defaults.
func (f *addFlags) check(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%s is no name for an IDCHost: %s", name, problems[0])
	}
	if f.target.keySecret == "" {
		f.target.keySecret = name + "-ssh"
	}
	if problems := metav1validation.ValidateLabels(f.labels, field.NewPath("--label")); len(problems) > 0 {
		return problems[0]
	}
	if err := f.target.check("--"); err != nil {
		return err
	}
	b := &f.bastion
	if b.address == "" {
		if b.user != "" || b.keyFile != "" || b.keySecret != "" || len(b.fingerprints) > 0 {
			return errors.New("flags of a bastion are given without --bastion-address; add it, or leave them out")
		}
		return nil
	}
	if b.user == "" {
		return errors.New("--bastion-address goes with --bastion-user; add who logs in to the bastion")
	}
	if b.keyFile == "" || b.keyFile == f.target.keyFile {
		b.keyFile = f.target.keyFile
		if b.keySecret == "" {
			b.keySecret = f.target.keySecret
		}
	}
	if b.keySecret == "" {
		b.keySecret = name + "-bastion-ssh"
	}
	if b.keySecret == f.target.keySecret && b.keyFile != f.target.keyFile {
		return fmt.Errorf("--key-secret and --bastion-key-secret are both %s, and the keys differ; give the bastion's key a Secret of its own", b.keySecret)
	}
	return b.check("--bastion-")
}

func (s *serverFlags) check(prefix string) error {
	if strings.ContainsAny(s.address, "@/ ") {
		return fmt.Errorf("%saddress %s: want an IP address or a DNS name; the user goes to %suser, the port to %sport", prefix, s.address, prefix, prefix)
	}
	if s.port < 1 || s.port > 65535 {
		return fmt.Errorf("%sport %d: want a number from 1 to 65535", prefix, s.port)
	}
	for _, fingerprint := range s.fingerprints {
		if !strings.HasPrefix(fingerprint, "SHA256:") {
			return fmt.Errorf("%sfingerprint %s: write it with SHA256: in front, as ssh-keygen -l shows it", prefix, fingerprint)
		}
	}
	return nil
}

// server makes the API's SSHServer from the flags, without host keys.
func (s *serverFlags) server() infrav1.SSHServer {
	return infrav1.SSHServer{Address: s.address, Port: s.port, User: s.user, KeySecretRef: infrav1.SecretReference{Name: s.keySecret}}
}

// host makes the IDCHost from the flags, without host keys.
func (f *addFlags) host(name, namespace string) *infrav1.IDCHost {
	host := &infrav1.IDCHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: f.labels}}
	host.Spec.SSHServer, host.Spec.FailureDomain = f.target.server(), f.failureDomain
	if f.bastion.address != "" {
		bastion := f.bastion.server()
		host.Spec.Bastion = &bastion
	}
	return host
}
