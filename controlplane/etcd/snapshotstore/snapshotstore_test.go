package snapshotstore

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

func TestStoresAreJudged(t *testing.T) {
	claim := func(name string) func(s *controlplanev1.EtcdSnapshotStore) {
		return func(s *controlplanev1.EtcdSnapshotStore) { s.S3, s.ClaimName = nil, name }
	}
	own := func(size, class string) func(s *controlplanev1.EtcdSnapshotStore) {
		return func(s *controlplanev1.EtcdSnapshotStore) {
			s.S3, s.PerMember = nil, &controlplanev1.PerMemberStoreSpec{Size: ptr.To(resource.MustParse(size)), StorageClassName: &class}
		}
	}
	s3 := func(edit func(s *controlplanev1.S3StoreSpec)) func(s *controlplanev1.EtcdSnapshotStore) {
		return func(s *controlplanev1.EtcdSnapshotStore) { edit(s.S3) }
	}
	for name, test := range map[string]struct {
		edit func(s *controlplanev1.EtcdSnapshotStore)
		want string
	}{
		"a bucket":                       {s3(func(*controlplanev1.S3StoreSpec) {}), ""},
		"a bucket with all":              {s3(func(s *controlplanev1.S3StoreSpec) { s.Prefix, s.Region, s.CARef.Name = "team/blue", "eu", "s3-ca" }), ""},
		"a claim":                        {claim("snapshots"), ""},
		"a volume each":                  {own("4Gi", ""), ""},
		"a volume each of a class":       {own("4Gi", "local-disks"), ""},
		"a volume each of no size":       {func(s *controlplanev1.EtcdSnapshotStore) { own("4Gi", "")(s); s.PerMember.Size = nil }, "store.perMember.size"},
		"a volume each without room":     {own("0", ""), "store.perMember.size"},
		"a volume each of a wrong class": {own("4Gi", "A class"), "store.perMember.storageClassName"},
		"a volume each and a claim":      {func(s *controlplanev1.EtcdSnapshotStore) { own("4Gi", "")(s); s.ClaimName = "snapshots" }, "store"},
		"a claim of member's snapshots":  {claim("kok-own-snapshots-green-etcd-data-0"), "store.claimName"},
		"both":                           {func(s *controlplanev1.EtcdSnapshotStore) { s.ClaimName = "snapshots" }, "store"},
		"neither":                        {claim(""), "store"},
		"a claim by no name":             {claim("Snapshots"), "store.claimName"},
		"a claim of a member":            {claim("kok-data-green-etcd-data-0"), "store.claimName"},
		"no address":                     {s3(func(s *controlplanev1.S3StoreSpec) { s.Endpoint = "s3.example" }), "store.s3.endpoint"},
		"an address without a host":      {s3(func(s *controlplanev1.S3StoreSpec) { s.Endpoint = "https://:9000" }), "store.s3.endpoint"},
		"an address with a bad port":     {s3(func(s *controlplanev1.S3StoreSpec) { s.Endpoint = "https://s3.example:a" }), "store.s3.endpoint"},
		"an address with a path":         {s3(func(s *controlplanev1.S3StoreSpec) { s.Endpoint = "https://s3.example/bucket" }), "store.s3.endpoint"},
		"an address with a query":        {s3(func(s *controlplanev1.S3StoreSpec) { s.Endpoint = "https://s3.example?a=b" }), "store.s3.endpoint"},
		"an address with credentials":    {s3(func(s *controlplanev1.S3StoreSpec) { s.Endpoint = "https://me:pa55@s3.example" }), "store.s3.endpoint"},
		"credentials that parse as none": {s3(func(s *controlplanev1.S3StoreSpec) { s.Endpoint = "https://me:pa55%@s3.example" }), "store.s3.endpoint"},
		"a bucket in upper case":         {s3(func(s *controlplanev1.S3StoreSpec) { s.Bucket = "Snapshots" }), "store.s3.bucket"},
		"a prefix that leads up":         {s3(func(s *controlplanev1.S3StoreSpec) { s.Prefix = "../green" }), "store.s3.prefix"},
		"a prefix with a space":          {s3(func(s *controlplanev1.S3StoreSpec) { s.Prefix = "a b" }), "store.s3.prefix"},
		"no credentials":                 {s3(func(s *controlplanev1.S3StoreSpec) { s.CredentialsRef.Name = "" }), "store.s3.credentialsRef.name"},
		"credentials of another tenant":  {s3(func(s *controlplanev1.S3StoreSpec) { s.CredentialsRef.Name = "green-etcd-data-backup" }), "store.s3.credentialsRef.name"},
		"a CA by no name":                {s3(func(s *controlplanev1.S3StoreSpec) { s.CARef.Name = "A" }), "store.s3.caRef.name"},
	} {
		t.Run(name, func(t *testing.T) {
			store := controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{
				Endpoint: "https://s3.example:9000", Bucket: "snapshots", CredentialsRef: controlplanev1.SecretReference{Name: "s3"},
			}}
			test.edit(&store)
			errs := Validate(store, field.NewPath("store"))
			if test.want == "" && len(errs) > 0 || test.want != "" && (len(errs) != 1 || errs[0].Field != test.want) {
				t.Errorf("got %v, want one for %q", errs, test.want)
			}
			if len(errs) > 0 && strings.Contains(errs.ToAggregate().Error(), "pa55") {
				t.Errorf("a password is said again: %v", errs)
			}
		})
	}
}

func TestHTTPIsWarnedOf(t *testing.T) {
	for endpoint, want := range map[string]bool{"https://s3.example": false, "http://s3.example": true, "http://127.0.0.1:9000": true} {
		warned := Warnings(controlplanev1.EtcdSnapshotStore{S3: &controlplanev1.S3StoreSpec{Endpoint: endpoint}}, field.NewPath("store"))
		if (len(warned) > 0) != want {
			t.Errorf("%s: %v", endpoint, warned)
		}
	}
	if warned := Warnings(controlplanev1.EtcdSnapshotStore{ClaimName: "a"}, field.NewPath("store")); len(warned) > 0 {
		t.Errorf("a claim: %v", warned)
	}
}
