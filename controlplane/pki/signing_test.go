package pki

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

const proxyCA = string(FrontProxyCA)

func TestWhichCASignsInEachPhase(t *testing.T) {
	for _, test := range []struct {
		phase        rotation.Phase
		former, next bool
	}{
		{rotation.Trusting, true, false},
		{rotation.Using, true, true},
		{rotation.Prepared, false, true},
		{rotation.Dropping, false, true},
		{rotation.Over, false, true},
	} {
		m := &KeyMaterial{rotations: map[string]*Rotation{string(EtcdCA): rotationAt(test.phase)}}
		signing := m.Signing(EtcdCA)
		if former, next := slices.Contains(signing, formerFile), slices.Contains(signing, m.rotations[string(EtcdCA)].File()); former != test.former || next != test.next {
			t.Errorf("%s: it is %t that the former one signs, and %t that the new one does", test.phase, former, next)
		}
	}
}

const formerFile = "0123456789"

// rotationAt is a second rotation that has come to a phase.
func rotationAt(phase rotation.Phase) *Rotation {
	return &Rotation{Record: rotation.Record{Phase: phase}, FormerFile: formerFile, parts: [][]byte{[]byte("public"), []byte("private")}}
}

// Whoever verifies API servers by the former cluster CA alone goes on until a person asks for the end.
func TestServersShowTheFormerClusterCAUntilTheEnd(t *testing.T) {
	next := rotationAt("").File()
	for _, test := range []struct {
		phase                     rotation.Phase
		signing, showing, clients []string
	}{
		{rotation.Trusting, []string{formerFile}, []string{formerFile}, []string{formerFile, next}},
		{rotation.Using, []string{formerFile, next}, []string{formerFile}, []string{formerFile, next}},
		{rotation.Prepared, []string{next}, []string{formerFile}, []string{formerFile, next}},
		{rotation.Dropping, []string{next}, []string{formerFile, next}, []string{formerFile, next}},
		{rotation.Over, []string{next}, []string{next}, []string{next}},
	} {
		m := &KeyMaterial{rotations: map[string]*Rotation{string(ClusterCA): rotationAt(test.phase), string(EtcdCA): rotationAt(test.phase)}}
		if got := m.Signing(ClusterCA); !slices.Equal(got, test.signing) {
			t.Errorf("%s: clients show certificates by %q", test.phase, got)
		}
		if got := m.Showing(ClusterCA); !slices.Equal(got, test.showing) {
			t.Errorf("%s: servers show certificates by %q", test.phase, got)
		}
		if got := m.ClientTrust(ClusterCA); !slices.Equal(got, test.clients) {
			t.Errorf("%s: clients trust %q", test.phase, got)
		}
		if got := m.Showing(EtcdCA); !slices.Equal(got, m.Signing(EtcdCA)) {
			t.Errorf("%s: members of etcd show certificates by %q as servers", test.phase, got)
		}
	}
	if got := (&KeyMaterial{}).ClientTrust(ClusterCA); got != nil {
		t.Errorf("without a rotation clients trust %q", got)
	}
}

// A step that is late must not issue by another CA under the name of the one that it knows.
func TestNoLeafIsIssuedByACAOfAnotherRotation(t *testing.T) {
	w := newWorld(t)
	never := w.ensure()
	first := w.rotateKind(proxyCA, asked, rotation.Over)
	file := first.Rotation(proxyCA).File()
	later := w.rotateKind(proxyCA, "2026-03-05T05:06:07Z", rotation.Using)
	for _, test := range []struct {
		of       string
		material *KeyMaterial
		file     string
		issues   bool
	}{
		{"the first CA before any rotation", never, "", true},
		{"a new CA before any rotation", never, file, false},
		{"the first CA after a rotation", first, "", false},
		{"the new CA after a rotation", first, file, true},
		{"the former CA amid another rotation", later, file, true},
		{"the new CA amid another rotation", later, later.Rotation(proxyCA).File(), true},
		{"the first CA amid another rotation", later, "", false},
	} {
		issuer, err := test.material.CAByFile(FrontProxyCA, test.file)
		if (err == nil) != test.issues {
			t.Errorf("%s: %v", test.of, err)
		}
		if err == nil && test.file != "" {
			if got := digits([][]byte{issuer.Bundle}); got != test.file {
				t.Errorf("%s: it is %s, want %s", test.of, got, test.file)
			}
		}
	}
	if _, err := never.CAByFile("another CA", ""); err == nil || !strings.Contains(err.Error(), "another CA") {
		t.Errorf("of a CA that there is not it says %v", err)
	}
}

// Pods of each phase mount a file that is there, and that has the CAs which its name tells.
func TestFilesOfTrustedCAs(t *testing.T) {
	w := newWorld(t)
	born := w.ensure().FrontProxyCA.Bundle
	w.running = true
	check := func(request string, phase rotation.Phase, names ...string) {
		t.Helper()
		material := w.rotateKind(proxyCA, request, phase)
		w.settled()
		data := w.Get(w.Host, hostCopy).Data
		var got []string
		for name := range data {
			if strings.HasPrefix(name, "front-proxy-ca") && strings.HasSuffix(name, ".crt") {
				got = append(got, name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
			t.Errorf("%s: there are %v, want %v", phase, got, names)
		}
		trusted := material.Files(proxyCA).Trusted
		file := data[TrustedFile(FrontProxyCACert, trusted...)]
		if len(certificates(file)) != len(trusted) {
			t.Errorf("%s: %q have %d certificates", phase, trusted, len(certificates(file)))
		}
		for _, ca := range trusted {
			if one := bytes.TrimSpace(data[TrustedFile(FrontProxyCACert, ca)]); len(one) == 0 || !bytes.Contains(file, one) {
				t.Errorf("%s: the CA %q is not in its file", phase, ca)
			}
		}
	}
	first := w.rotateKind(proxyCA, asked, rotation.Trusting).Rotation(proxyCA).File()
	check(asked, rotation.Using, "front-proxy-ca.crt", "front-proxy-ca-"+first+".crt", "front-proxy-ca-first-"+first+".crt")
	check(asked, rotation.Dropping, "front-proxy-ca.crt", "front-proxy-ca-"+first+".crt", "front-proxy-ca-first-"+first+".crt")
	check(asked, rotation.Over, "front-proxy-ca.crt", "front-proxy-ca-"+first+".crt")
	if w.has(born) {
		t.Error("the former CA is there")
	}
	const later = "2026-03-05T05:06:07Z"
	second := w.rotateKind(proxyCA, later, rotation.Trusting).Rotation(proxyCA).File()
	check(later, rotation.Prepared, "front-proxy-ca.crt", "front-proxy-ca-"+first+".crt", "front-proxy-ca-"+second+".crt", "front-proxy-ca-"+first+"-"+second+".crt")
	check(later, rotation.Over, "front-proxy-ca.crt", "front-proxy-ca-"+second+".crt")
}

func certificates(bundle []byte) []string {
	return strings.SplitAfter(strings.TrimSpace(string(bundle)), "-----END CERTIFICATE-----\n")
}

// Whoever restores from a snapshot has the bundle alone: it trusts both CAs, signs by the one in use, and can rotate again.
func TestABundleTrustsBothCAsWhileOneRotates(t *testing.T) {
	for _, phase := range phases {
		w := newWorld(t)
		born := w.ensure()
		material := w.rotateKind(proxyCA, asked, phase)
		read := throughBundle(t, material)
		want := 2
		if phase == rotation.Dropping || phase == rotation.Over {
			want = 1
		}
		if got := len(certificates(read.FrontProxyCA.Bundle)); got != want {
			t.Errorf("%s: it trusts %d CAs, want %d", phase, got, want)
		}
		if former := read.FrontProxyCA.Certificate.Equal(born.FrontProxyCA.Certificate); former != (phase == rotation.Trusting) {
			t.Errorf("%s: it is %t that the former CA signs", phase, former)
		}

		restored := newWorld(t)
		for _, secret := range ManagementSecrets(cluster, read) {
			if err := restored.Management.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		}
		again := restored.rotateKind(proxyCA, asked, rotation.Using)
		trusted := again.Files(proxyCA).Trusted
		if got := len(certificates(restored.Get(restored.Host, hostCopy).Data[TrustedFile(FrontProxyCACert, trusted...)])); got != want+1 {
			t.Errorf("%s: restored, it trusts %d CAs, want %d", phase, got, want+1)
		}
		for _, file := range again.Signing(FrontProxyCA) {
			if _, err := again.CAByFile(FrontProxyCA, file); err != nil {
				t.Errorf("%s: restored, %v", phase, err)
			}
		}
		over := restored.rotateKind(proxyCA, asked, rotation.Over)
		if got := len(certificates(over.FrontProxyCA.Bundle)); got != 1 {
			t.Errorf("%s: after that it trusts %d CAs", phase, got)
		}
	}
}

func TestCAsOfARotationThatIsUnderWay(t *testing.T) {
	w := newWorld(t)
	born := w.ensure()
	if former, next := born.RotatingCAs(FrontProxyCA); former != nil || next != nil {
		t.Error("a CA rotates that nobody asked for")
	}
	material := w.rotateKind(proxyCA, asked, rotation.Dropping)
	former, next := material.RotatingCAs(FrontProxyCA)
	if !bytes.Equal(former, born.FrontProxyCA.Bundle) || !bytes.Equal(next, material.Rotation(proxyCA).Key["tls.crt"]) {
		t.Error("it has other CAs")
	}
	if former, next := w.rotateKind(proxyCA, asked, rotation.Over).RotatingCAs(FrontProxyCA); former != nil || next != nil {
		t.Error("a CA rotates still")
	}
}

// A person may have other data in the Secret.
func TestFilesOfKeysAreToldApart(t *testing.T) {
	for dataKey, want := range map[string]bool{
		"ca-0123456789.crt": true, "ca-first-0123456789.crt": true, "ca-0123456789-abcdef0123.crt": true,
		"ca.crt": false, "ca-.crt": false, "ca-mine.crt": false, "ca-0123456789.key": false, "etcd-ca-0123456789.crt": false, "ca-0123456789-mine.crt": false,
	} {
		if got := isFileOf(CACert, dataKey); got != want {
			t.Errorf("%s: %t", dataKey, got)
		}
	}
}

// Pods of two phases run while one begins: the files of both are there, and no others.
func TestWhichCAsPodsTrustInEachPhase(t *testing.T) {
	for _, test := range []struct {
		phase rotation.Phase
		sets  string
	}{
		{rotation.Trusting, `[["former"] ["former" "next"]]`},
		{rotation.Using, `[["former" "next"]]`},
		{rotation.Prepared, `[["former" "next"]]`},
		{rotation.Dropping, `[["former" "next"] ["next"]]`},
		{rotation.Over, `[["next"]]`},
	} {
		m := &KeyMaterial{rotations: map[string]*Rotation{string(EtcdCA): rotationAt(test.phase)}}
		got := strings.NewReplacer(formerFile, "former", rotationAt("").File(), "next").Replace(fmt.Sprintf("%q", m.TrustedSets(EtcdCA)))
		if got != test.sets {
			t.Errorf("%s: pods trust %s", test.phase, got)
		}
	}
}

// What pods of a phase mount has the CAs that its name tells.
func TestBundlesOfTrustedCAs(t *testing.T) {
	w := newWorld(t)
	born := w.ensure()
	if got, err := born.Bundle(EtcdCA); err != nil || !bytes.Equal(got, born.EtcdCA.Bundle) {
		t.Errorf("without a rotation it is another one: %v", err)
	}
	for _, phase := range phases {
		material := w.rotateKind(string(EtcdCA), asked, phase)
		made := material.Rotation(string(EtcdCA))
		trusted := material.Files(string(EtcdCA)).Trusted
		if sets := material.TrustedSets(EtcdCA); !slices.ContainsFunc(sets, func(set []string) bool { return slices.Equal(set, trusted) }) {
			t.Errorf("%s: pods come to trust %q, and there are %q", phase, trusted, sets)
		}
		for _, set := range material.TrustedSets(EtcdCA) {
			bundle, err := material.Bundle(EtcdCA, set...)
			if err != nil || len(certificates(bundle)) != len(set) {
				t.Errorf("%s: of %q there are %d CAs: %v", phase, set, len(certificates(bundle)), err)
			}
			for _, file := range set {
				want := born.EtcdCA.Bundle
				if file != "" {
					want = made.Key["tls.crt"]
				}
				if !bytes.Contains(bundle, bytes.TrimSpace(want)) {
					t.Errorf("%s: the CA %q is not among %q", phase, file, set)
				}
			}
		}
		if sets := material.TrustedSets(EtcdEventsCA); len(sets) != 1 || !slices.Equal(sets[0], []string{""}) {
			t.Errorf("%s: of a CA that does not rotate there are %q", phase, sets)
		}
	}
	if _, err := w.ensure().Bundle(EtcdCA, ""); err == nil {
		t.Error("the CA is there that a rotation replaced")
	}
}

func TestNamesOfFilesWithCAsOfTwoSigners(t *testing.T) {
	for _, test := range []struct {
		files, others []string
		want          string
	}{
		{nil, nil, "client-ca.crt"},
		{[]string{""}, []string{""}, "client-ca.crt"},
		{nil, []string{"", "0123456789"}, "client-ca-first-and-first-0123456789.crt"},
		{[]string{"", "0123456789"}, nil, "client-ca-first-0123456789-and-first.crt"},
		{[]string{"0123456789"}, []string{"abcdef0123"}, "client-ca-0123456789-and-abcdef0123.crt"},
	} {
		if got := TrustedFileOfBoth("client-ca.crt", test.files, test.others); got != test.want {
			t.Errorf("%q and %q are in %s, want %s", test.files, test.others, got, test.want)
		}
	}
}

// Machines that join while the cluster CA rotates have to trust both: bootstrap providers read Cluster API's Secret alone.
func TestOtherProvidersAreToldOfBothClusterCAs(t *testing.T) {
	theirs := newWorld(t).ensure().ClusterCA.Bundle
	for name, before := range map[string]func(w *world){
		"our own Secret": func(*world) {},
		"a person's Secret": func(w *world) {
			foreign := newWorld(w.t)
			foreign.ensure()
			data := foreign.Get(foreign.Management, "blue-ca").Data
			data["other"] = theirs
			w.Create(w.Management, "blue-ca", data)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before(w)
			born := w.ensure()
			for _, phase := range phases {
				made := w.rotateKind(string(ClusterCA), asked, phase)
				next, err := made.CAByFile(ClusterCA, made.Rotation(string(ClusterCA)).File())
				if err != nil {
					t.Fatal(err)
				}
				wantTrusted, wantPair := joined(born.ClusterCA.Bundle, next.Bundle), born.ClusterCA.Bundle
				if phase == rotation.Over {
					wantTrusted, wantPair = nil, next.Bundle
				}
				data := w.Get(w.Management, "blue-ca").Data
				if !bytes.Equal(data["trusted.crt"], wantTrusted) || !bytes.Equal(data["tls.crt"], wantPair) {
					t.Errorf("%s: it has %d bytes of CAs beside the pair, want %d, or another pair", phase, len(data["trusted.crt"]), len(wantTrusted))
				}
				if name == "a person's Secret" && !bytes.Equal(data["other"], theirs) {
					t.Errorf("%s: what a person put there is gone", phase)
				}
				w.settled()
			}
		})
	}
}

// kube-controller-manager signs by a file with one certificate alone.
func TestABundleHasTheClusterCAThatIsInUse(t *testing.T) {
	for _, phase := range phases {
		w := newWorld(t)
		born := w.ensure()
		material := w.rotateKind(string(ClusterCA), asked, phase)
		want := born.ClusterCA.Bundle
		if phase != rotation.Trusting {
			want = material.Rotation(string(ClusterCA)).Key["tls.crt"]
		}
		if got := throughBundle(t, material).ClusterCA.Bundle; !bytes.Equal(got, want) {
			t.Errorf("%s: it has %d CAs, or the other one", phase, len(certificates(got)))
		}
	}
}
