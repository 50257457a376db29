package webhooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/supported"
)

func goodBackup(t *testing.T) controlplanev1.EtcdBackupSpec {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return controlplanev1.EtcdBackupSpec{
		Every: &metav1.Duration{Duration: time.Hour}, Recipients: []string{identity.Recipient().String()},
		Store: controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
			Endpoint: "https://s3.example:9000", Bucket: "snapshots", CredentialsRef: controlplanev1.SecretReference{Name: "s3"},
		}},
	}
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestBackupsAreJudged(t *testing.T) {
	hybrid, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		edit func(s *controlplanev1.EtcdBackupSpec)
		want string
	}{
		"a good one":              {func(*controlplanev1.EtcdBackupSpec) {}, ""},
		"with a maximal age":      {func(s *controlplanev1.EtcdBackupSpec) { s.MaxAge = duration(time.Hour) }, ""},
		"too often":               {func(s *controlplanev1.EtcdBackupSpec) { s.Every = duration(time.Minute) }, "spec.every"},
		"too seldom":              {func(s *controlplanev1.EtcdBackupSpec) { s.Every = duration(1000 * time.Hour) }, "spec.every"},
		"at half seconds":         {func(s *controlplanev1.EtcdBackupSpec) { s.Every = duration(time.Hour + time.Second/2) }, "spec.every"},
		"always too old":          {func(s *controlplanev1.EtcdBackupSpec) { s.MaxAge = duration(30 * time.Minute) }, "spec.maxAge"},
		"never too old":           {func(s *controlplanev1.EtcdBackupSpec) { s.MaxAge = duration(10000 * time.Hour) }, "spec.maxAge"},
		"nobody's key":            {func(s *controlplanev1.EtcdBackupSpec) { s.Recipients = append(s.Recipients, "age1abc") }, "spec.recipients[1]"},
		"a key of SSH":            {func(s *controlplanev1.EtcdBackupSpec) { s.Recipients[0] = "ssh-ed25519 AAAA" }, "spec.recipients[0]"},
		"a key with a comment":    {func(s *controlplanev1.EtcdBackupSpec) { s.Recipients[0] = "# me\n" + s.Recipients[0] }, "spec.recipients[0]"},
		"two keys in one":         {func(s *controlplanev1.EtcdBackupSpec) { s.Recipients[0] += "\n" + s.Recipients[0] }, "spec.recipients[0]"},
		"a post-quantum key":      {func(s *controlplanev1.EtcdBackupSpec) { s.Recipients[0] = hybrid.Recipient().String() }, "spec.recipients[0]"},
		"a store that is wrong":   {func(s *controlplanev1.EtcdBackupSpec) { s.Store.S3.Bucket = "A" }, "spec.store.s3.bucket"},
		"no store":                {func(s *controlplanev1.EtcdBackupSpec) { s.Store = controlplanev1.EtcdSnapshotStore{} }, "spec.store"},
		"http, which is a choice": {func(s *controlplanev1.EtcdBackupSpec) { s.Store.S3.Endpoint = "http://s3.example" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goodBackup(t)
			test.edit(&spec)
			errs := validateBackup(spec, field.NewPath("spec"))
			if test.want == "" && len(errs) > 0 || test.want != "" && (len(errs) != 1 || errs[0].Field != test.want) {
				t.Errorf("got %v, want one for %q", errs, test.want)
			}
		})
	}
}

// Messages go into logs and terminals.
func TestASecretKeyIsNeverSaidAgain(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	secret := identity.String()
	for _, text := range []string{secret, strings.ToLower(secret), " " + secret, "# mine\n" + secret, "age1" + secret, secret[20:]} {
		spec := goodBackup(t)
		spec.Recipients[0] = text
		errs := validateBackup(spec, field.NewPath("spec"))
		if len(errs) != 1 || strings.Contains(strings.ToUpper(errs.ToAggregate().Error()), secret[20:]) {
			t.Errorf("it is said: %v", errs)
		}
	}
}

// A template, too, is how people write a backup.
func TestPeopleAreWarnedOfABucketByHTTP(t *testing.T) {
	table := &supported.Versions{}
	backup := goodBackup(t)
	backup.Store.S3.Endpoint = "http://s3.example"
	c, template := &controlplanev1.KOKControlPlane{}, &controlplanev1.KOKControlPlaneTemplate{}
	c.Spec.Version, c.Spec.Etcd.Backup, template.Spec.Template.Spec.Etcd.Backup = "v1.36.3", &backup, &backup
	warned, err := (&KOKControlPlane{Versions: table, Limits: DefaultLimits()}).ValidateCreate(t.Context(), c)
	if err != nil || len(warned) != 1 || !strings.HasPrefix(warned[0], "spec.etcd.backup.store.s3.endpoint: ") {
		t.Errorf("of a control plane: %v, %v", warned, err)
	}
	of, err := (&KOKControlPlaneTemplate{Versions: table, Limits: DefaultLimits()}).ValidateCreate(t.Context(), template)
	if err != nil || len(of) != 1 || !strings.HasPrefix(of[0], "spec.template.spec.etcd.backup.store.s3.endpoint: ") {
		t.Errorf("of a template: %v, %v", of, err)
	}
	before := c.DeepCopy()
	before.Spec.Etcd.Backup = nil
	if again, err := (&KOKControlPlane{Versions: table, Limits: DefaultLimits()}).ValidateUpdate(t.Context(), before, c); err != nil || !slices.Equal(again, warned) {
		t.Errorf("of a change: %v, %v", again, err)
	}
}

// Members get their volumes when their StatefulSet is made.
func TestVolumesForSnapshotsAreThereFromTheBeginning(t *testing.T) {
	own := func(class, size string) *controlplanev1.EtcdBackupSpec {
		return &controlplanev1.EtcdBackupSpec{Store: controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{StorageClassName: &class, Size: ptr.To(resource.MustParse(size))}}}
	}
	unset := own("", "4Gi")
	unset.Store.PerMember.StorageClassName = nil
	claim := &controlplanev1.EtcdBackupSpec{Store: controlplanev1.EtcdSnapshotStore{ClaimName: "snapshots"}}
	for name, test := range map[string]struct {
		before, after *controlplanev1.EtcdBackupSpec
		refused       string
	}{
		"they stay":                         {own("a", "4Gi"), own("a", "4Gi"), ""},
		"they grow":                         {own("a", "4Gi"), own("a", "8Gi"), ""},
		"their size is taken back":          {own("a", "8Gi"), own("a", "4Gi"), ""}, // The controller says what the storage does not have.
		"another class":                     {own("a", "4Gi"), own("b", "4Gi"), "perMember.storageClassName"},
		"no class in place of an empty one": {own("", "4Gi"), unset, ""},
		"a claim in their place":            {own("a", "4Gi"), claim, ""},
		"no backups any more":               {own("a", "4Gi"), nil, ""},
		"they come late":                    {claim, own("a", "4Gi"), "perMember"},
		"they come with backups":            {nil, own("a", "4Gi"), "perMember"},
		"there never are any":               {nil, claim, ""},
	} {
		t.Run(name, func(t *testing.T) {
			errs := validateOwnVolumesChange(test.before, test.after, field.NewPath("perMember"))
			if (len(errs) == 0) != (test.refused == "") || len(errs) > 0 && errs[0].Field != test.refused {
				t.Errorf("it says %v", errs)
			}
		})
	}
}

func TestMembersWithoutVolumesOfDataHaveNoneForSnapshots(t *testing.T) {
	spec := controlplanev1.EtcdSpec{Backup: &controlplanev1.EtcdBackupSpec{Recipients: []string{}, Store: controlplanev1.EtcdSnapshotStore{PerMember: &controlplanev1.PerMemberStoreSpec{Size: ptr.To(resource.MustParse("4Gi"))}}}}
	for storage, want := range map[controlplanev1.EtcdStorageType]int{controlplanev1.EtcdStoragePersistentVolumeClaim: 0, controlplanev1.EtcdStorageEmptyDir: 1} {
		spec.Data.Storage.Type = storage
		if errs := validateEtcd(spec, field.NewPath("etcd")); len(errs) != want || want > 0 && errs[0].Field != "etcd.backup.store.perMember" {
			t.Errorf("%s: it says %v", storage, errs)
		}
	}
}
