package hosts

import (
	"strings"
	"testing"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
)

const (
	pinnedKey         = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHAj+gzk1xLq8xF8Uy1HDRvO3nDzVnPwD2zSTsmmmNYE"
	pinnedFingerprint = "SHA256:y+V/CSRV/CORbrKqFqca1QbN7EXYoTQYZ9FnvZr4NIY"
)

// asked are the flags that the existing host was added with.
func asked() addFlags {
	return addFlags{
		target:        serverFlags{address: "192.0.2.7", port: 22, user: "admin", keySecret: "site-a-ssh"},
		labels:        map[string]string{"pool": "workers"},
		failureDomain: "rack-1",
	}
}

func existing() *infrav1.IDCHost {
	flags := asked()
	host := flags.host("seven", "team")
	host.Labels = map[string]string{"pool": "workers", "more": "of a person"}
	host.Spec.HostKeys = []string{pinnedKey}
	return host
}

func TestAnExistingHostIsComparedWithWhatIsAskedFor(t *testing.T) {
	bastion := serverFlags{address: "bastion.example.com", port: 22, user: "jump", keySecret: "site-a-ssh"}
	for name, test := range map[string]struct {
		change func(*infrav1.IDCHost)
		ask    func(*addFlags)
		want   []string
	}{
		"the same values": {},
		"another address names the field and the command": {ask: func(f *addFlags) { f.target.address = "192.0.2.8" }, want: []string{
			"IDCHost team/seven", "spec.address is 192.0.2.7, not 192.0.2.8",
			`kubectl patch idchost seven --namespace team --type=merge -p '{"spec":{"address":"192.0.2.8"}}'`}},
		"two fields are changed by one command": {ask: func(f *addFlags) { f.target.port, f.target.user = 2222, "root" }, want: []string{
			"spec.port is 22, not 2222", "spec.user is admin, not root", `{"spec":{"port":2222,"user":"root"}}`}},
		"another Secret": {ask: func(f *addFlags) { f.target.keySecret = "other" }, want: []string{
			"spec.keySecretRef is site-a-ssh, not other", `{"spec":{"keySecretRef":{"name":"other"}}}`}},
		"another label": {ask: func(f *addFlags) { f.labels = map[string]string{"pool": "gpu"} }, want: []string{
			"the label pool is workers, not gpu", `{"metadata":{"labels":{"pool":"gpu"}}}`}},
		"what is not asked for does not differ":       {ask: func(f *addFlags) { f.labels, f.failureDomain = nil, "" }},
		"another failure domain":                      {ask: func(f *addFlags) { f.failureDomain = "rack-2" }, want: []string{"spec.failureDomain is rack-1, not rack-2"}},
		"the fingerprint of the pinned key":           {ask: func(f *addFlags) { f.target.fingerprints = []string{pinnedFingerprint} }},
		"the fingerprint of a key that is not pinned": {ask: func(f *addFlags) { f.target.fingerprints = []string{"SHA256:other"} }, want: []string{"spec.hostKeys has no key SHA256:other", "kubectl edit idchost seven --namespace team"}},
		"a bastion that it has not":                   {ask: func(f *addFlags) { f.bastion = bastion }, want: []string{"spec.bastion is unset, not bastion.example.com", "kubectl edit idchost"}},
		"a bastion that is not asked for":             {change: func(h *infrav1.IDCHost) { b := bastion.server(); h.Spec.Bastion = &b }, want: []string{"spec.bastion is bastion.example.com, not unset", `{"spec":{"bastion":null}}`}},
		"a field of the bastion":                      {change: func(h *infrav1.IDCHost) { b := bastion.server(); b.User = "old"; h.Spec.Bastion = &b }, ask: func(f *addFlags) { f.bastion = bastion }, want: []string{"spec.bastion.user is old, not jump", `{"spec":{"bastion":{"user":"jump"}}}`}},
		"what the controller wrote meanwhile does not differ": {change: func(h *infrav1.IDCHost) {
			h.Spec.Claim = &infrav1.HostClaim{Name: "m"}
			h.Status.ObservedGeneration = 3
		}},
	} {
		t.Run(name, func(t *testing.T) {
			host, flags := existing(), asked()
			if test.change != nil {
				test.change(host)
			}
			if test.ask != nil {
				test.ask(&flags)
			}
			err := compare(host, flags.host("seven", "team"), flags)
			if len(test.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
		})
	}
}

func TestFlagsThatCannotBeMeantAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		host string
		ask  func(*addFlags)
		want string
	}{
		"a name with capital letters":          {host: "Seven", want: "Seven is no name for an IDCHost"},
		"a user in the address":                {ask: func(f *addFlags) { f.target.address = "admin@192.0.2.7" }, want: "the user goes to --user"},
		"a port that is none":                  {ask: func(f *addFlags) { f.target.port = 70000 }, want: "--port 70000: want a number from 1 to 65535"},
		"a fingerprint in another form":        {ask: func(f *addFlags) { f.target.fingerprints = []string{"MD5:aa"} }, want: "as ssh-keygen -l shows it"},
		"a label that is none":                 {ask: func(f *addFlags) { f.labels = map[string]string{"a b": "c"} }, want: "--label"},
		"a bastion's user without its address": {ask: func(f *addFlags) { f.bastion.user = "jump" }, want: "without --bastion-address"},
		"a bastion without a user":             {ask: func(f *addFlags) { f.bastion.address = "b" }, want: "--bastion-user"},
		"two keys for one Secret": {ask: func(f *addFlags) {
			f.bastion = serverFlags{address: "b", port: 22, user: "jump", keyFile: "other", keySecret: "site-a-ssh"}
		}, want: "the keys differ"},
	} {
		t.Run(name, func(t *testing.T) {
			flags, host := asked(), test.host
			if host == "" {
				host = "seven"
			}
			if test.ask != nil {
				test.ask(&flags)
			}
			if err := flags.check(host); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q in %v", test.want, err)
			}
		})
	}
}

func TestSecretsHaveNamesOfTheirOwnUnlessTheKeyIsTheSame(t *testing.T) {
	for name, test := range map[string]struct{ bastionKey, host, bastion string }{
		"the host's key for both": {"", "seven-ssh", "seven-ssh"},
		"a key for each":          {"jump-key", "seven-ssh", "seven-bastion-ssh"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := asked()
			flags.target.keySecret, flags.target.keyFile = "", "host-key"
			flags.bastion = serverFlags{address: "b", port: 22, user: "jump", keyFile: test.bastionKey}
			if err := flags.check("seven"); err != nil || flags.target.keySecret != test.host || flags.bastion.keySecret != test.bastion {
				t.Errorf("%s and %s, %v", flags.target.keySecret, flags.bastion.keySecret, err)
			}
		})
	}
}
