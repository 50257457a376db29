//go:build attack

package namespaceuser

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// abroad are ways to write the name of an object of the victim.
var abroad = map[string]string{
	"by namespace and name": victim + "/%s",
	"by a path":             "../../" + victim + "/secrets/%s",
}

// planes are the references of control planes, each to a Secret that the attacker has, too.
var planes = map[string]struct {
	secret    string
	refers    func(name string) edit
	stoppedBy string
}{
	"the password of a registry": {"registry", func(name string) edit {
		return func(c *controlplanev1.KOKControlPlane) { c.Spec.ImagePullSecret = name }
	}, "must be the name of a Secret"},
	"a volume of the spec": {"file", func(name string) edit {
		return func(c *controlplanev1.KOKControlPlane) {
			c.Spec.KubeScheduler.ExtraVolumes = []controlplanev1.ExtraVolume{{
				Name: "extra", MountPath: "/extra", Secret: &corev1.SecretVolumeSource{SecretName: name},
			}}
		}
	}, "a lowercase RFC 1123 subdomain"},
	"the kubeconfig of a host cluster": {"host", elsewhereBy, "should match"},
}

func TestControlPlanesReadNoSecretOfAnotherNamespace(t *testing.T) {
	a := newAttacker(t)
	for _, secret := range victimSecrets(a.namespace, "of-the-attacker") {
		a.must(secret)
	}
	tries := map[string]try{}
	for name, plane := range planes {
		for way, written := range abroad {
			tries[name+", "+way] = refused(plane.refers(plane.secret), plane.refers(fmt.Sprintf(written, plane.secret)), plane.stoppedBy)
		}
	}
	a.attempt(t, tries)
}

// readsFile is a config with a file that is in a Secret.
func readsFile(name string) func(*bootstrapv1.KOKConfig) {
	return func(c *bootstrapv1.KOKConfig) {
		c.Spec.Files = []bootstrapv1.File{{Path: "/etc/a", ContentFrom: &bootstrapv1.FileSource{Secret: bootstrapv1.SecretKey{Name: name, Key: "key"}}}}
	}
}

// installs is a config whose machine installs what a KOKSoftware describes.
func installs(spec bootstrapv1.SoftwareSpec) func(*bootstrapv1.KOKConfig) {
	return func(c *bootstrapv1.KOKConfig) {
		c.Spec.Software = spec
		c.Spec.Software.Mode = bootstrapv1.SoftwareDescribed
	}
}

// joins makes a machine's bootstrap data with something of a Secret.
func joins(edit func(*bootstrapv1.KOKConfig)) func(*attacker) error {
	return func(a *attacker) error {
		worker := a.worker(edit, a.tenantKubeconfig())
		a.clusterIsUp(worker)
		eventually(a.t, "the bootstrap data is there", func(ctx context.Context) error {
			said, err := a.told(ctx, worker)
			if err != nil {
				return err
			}
			if ptr.Deref(worker.Status.Initialization.DataSecretCreated, false) {
				return nil
			}
			return fmt.Errorf("it says %s", said)
		})
		return nil
	}
}

func TestMachinesGetNoSecretOfAnotherNamespace(t *testing.T) {
	a := newAttacker(t)
	for _, secret := range victimSecrets(a.namespace, "of-the-attacker") {
		a.must(secret)
	}
	a.must(software(a.namespace, "own", "mirror"))
	file := once(joins(readsFile("file")))
	own := once(joins(installs(bootstrapv1.SoftwareSpec{Ref: bootstrapv1.SoftwareReference{Name: "own"}})))
	asks := func(edit func(*bootstrapv1.KOKConfig)) func(*attacker) (client.Object, error) {
		return func(a *attacker) (client.Object, error) {
			worker := a.worker(edit, a.tenantKubeconfig())
			a.clusterIsUp(worker)
			return worker, nil
		}
	}
	tries := map[string]try{
		"what the version names, which only the victim has": {control: own, attack: asks(installs(bootstrapv1.SoftwareSpec{})), stoppedBy: "there is no KOKSoftware software-v1.36.3"},
		"a file, from a Secret that is only there":          {control: file, attack: asks(readsFile("registry-of-others")), stoppedBy: "there is no Secret registry-of-others"},
	}
	for way, written := range abroad {
		tries["a file, "+way] = try{control: file, attack: asks(readsFile(fmt.Sprintf(written, "file"))), stoppedBy: "invalid resource name"}
		tries["a mirror's password, "+way] = try{control: own, stoppedBy: "invalid resource name", attack: func(a *attacker) (client.Object, error) {
			described := software(a.namespace, a.fresh("software"), fmt.Sprintf(written, "mirror"))
			if err := a.client.Create(a.t.Context(), described); err != nil {
				return nil, err
			}
			return asks(installs(bootstrapv1.SoftwareSpec{Ref: bootstrapv1.SoftwareReference{Name: described.Name}}))(a)
		}}
		tries["software, "+way] = try{
			control: own, stoppedBy: "there is no KOKSoftware",
			attack: asks(installs(bootstrapv1.SoftwareSpec{Ref: bootstrapv1.SoftwareReference{Name: fmt.Sprintf(written, "software-v1.36.3")}})),
		}
		tries["software of a version, "+way] = try{control: own, stoppedBy: "should match", attack: func(a *attacker) (client.Object, error) {
			config := &bootstrapv1.KOKConfig{ObjectMeta: a.meta(a.fresh("green"))}
			installs(bootstrapv1.SoftwareSpec{ByVersion: fmt.Sprintf(written, "software")})(config)
			return config, a.client.Create(a.t.Context(), config)
		}}
	}
	a.attempt(t, tries)
}
