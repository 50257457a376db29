package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/mounted"
)

func TestMistakesAboutSnapshotsAreTold(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	const secret = "AGE-SECRET-KEY-1NOTAKEY"
	key, recipients := write("key", strings.Repeat("k", 32)), write("recipients", "age1")
	in := []string{"--hmac-key-file=" + key, "--store-dir=" + folder}
	with := func(args ...string) []string { return slices.Concat(args, in) }
	take := func(args ...string) []string {
		return slices.Concat(with("snapshot", "--endpoint=http://127.0.0.1:1", "--cluster=a/b", "--recipients-file="+recipients), args)
	}
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"no key":              {[]string{"list", "--store-dir=" + folder}, `required flag(s) "hmac-key-file" not set`},
		"a key that is short": {[]string{"list", "--store-dir=" + folder, "--hmac-key-file=" + recipients}, "--hmac-key-file: the key of manifests has 4 bytes"},
		"a key that is gone":  {[]string{"list", "--store-dir=" + folder, "--hmac-key-file=/none"}, "--hmac-key-file: open /none"},
		"no store":            {[]string{"list", "--hmac-key-file=" + key}, "name one store"},
		"two stores":          {with("list", "--s3-endpoint=https://a"), "name one store"},
		"a folder that's not": {[]string{"list", "--hmac-key-file=" + key, "--store-dir=" + folder + "/none"}, "claimName: " + folder + "/none is not there"},
		"a kind that is none": {with("list", "--store-kind=x"), "--store-kind must be"},
		"a bucket that's not": {[]string{"list", "--hmac-key-file=" + key, "--s3-endpoint=https://a", "--s3-bucket=A"}, `s3.bucket: "A" is no name`},
		"a huge file":         {[]string{"list", "--store-dir=" + folder, "--hmac-key-file=" + write("huge", strings.Repeat("x", mounted.MaxFile+1))}, "has more than"},
		"a cluster":           {take("--cluster=b"), "--cluster must be namespace/name"},
		"a slot":              {take("--slot=now"), "--slot must be of the form"},
		"slots of nothing":    {take("--every=1ms"), "--every must be a second"},
		"no recipient":        {take(), "is no public key of age"},
		"a secret recipient":  {take("--recipients-file=" + write("secret", secret)), "a secret key stands among the recipients"},
		"half of a TLS":       {take("--recipients-file="+write("good", "age1yhm4gctwfmrpz87tdslm550wrx6m79y9f2hdzt0lndjnehwj0ukqrjpyx5"), "--cacert=/none"), "read etcd's CA"},
		"a bad identity":      {with("verify", "--scratch="+folder, "--identity-file="+write("identity", secret)), "is no secret key of age"},
		"no program":          {with("verify", "--scratch="+folder, "--etcd=/none", "--identity-file="+write("id", "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX")), "--etcd: "},
		"a name that is none": {with("restore", "x", "--identity-file="+folder+"/id", "--etcd=/bin/true", "--data-dir=d", "--name=n", "--peer-url=u", "--token=t"), "is no name of a snapshot"},
	} {
		out, errs, err := execute(t, test.args...)
		if err == nil || !strings.Contains(err.Error(), test.says) || out != "" || errs != "" {
			t.Errorf("%s: %v: %s%s", name, err, out, errs)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: it tells a secret: %v", name, err)
		}
	}
}

func TestASlotIsTheBeginningOfATime(t *testing.T) {
	got, err := slotOf("2026-03-04T07:06:07+02:00", 5*time.Minute)
	if want := time.Date(2026, 3, 4, 5, 5, 0, 0, time.UTC); err != nil || !got.Equal(want) || got.Location() != time.UTC {
		t.Errorf("it is %v: %v", got, err)
	}
	if got, err := slotOf("", time.Hour); err != nil || time.Since(got) > time.Hour+time.Minute {
		t.Errorf("now it is %v: %v", got, err)
	}
}
