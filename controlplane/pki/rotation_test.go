package pki

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

const (
	hostCopy  = "blue-key-material"
	rotations = "blue-key-rotation"
	asked     = "2026-03-04T05:06:07Z"
)

// phases are all phases of a rotation, in their order.
var phases = []rotation.Phase{rotation.Trusting, rotation.Using, rotation.Prepared, rotation.Dropping, rotation.Over}

// rotates is a kind of key that rotates: its Secret in the management cluster, the data key of its rotation, and that of its part
// which is secret, in the Secret and in the host cluster's copy.
type rotates struct{ kind, secret, rotation, key, hostKey string }

var rotating = []rotates{
	{ServiceAccount, "blue-sa", "sa.rotation", "tls.key", "sa.key"},
	{Encryption, "blue-encryption", "encryption.rotation", "encryption-key", "encryption-key"},
	{string(FrontProxyCA), "blue-proxy", "front-proxy-ca.rotation", "tls.key", "front-proxy-ca.key"},
}

// rotate takes the service account key of a tenant to a phase, and returns its key material.
func (w *world) rotate(request string, to rotation.Phase) *KeyMaterial {
	w.t.Helper()
	return w.rotateKind(ServiceAccount, request, to)
}

func (w *world) rotateKind(kind, request string, to rotation.Phase) *KeyMaterial {
	w.t.Helper()
	material := w.ensure()
	for _, phase := range phases {
		if err := w.store.Rotate(w.t.Context(), cluster, material, kind, rotation.Record{Asked: request, Phase: phase}); err != nil {
			w.t.Fatal(err)
		}
		if material = w.ensure(); phase == to {
			break
		}
	}
	return material
}

// saFiles are the data keys of service account keys in the host cluster's copy.
func (w *world) saFiles() []string {
	w.t.Helper()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w.Get(w.Host, hostCopy).Data)), func(key string) bool { return !strings.HasPrefix(key, "sa") })
}

func TestEachPhaseHasItsKeysInBothCopies(t *testing.T) {
	for _, phase := range phases {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t)
			born := w.ensure()
			w.running = true
			got := w.rotate(asked, phase)
			w.settled()

			r := got.Rotation(ServiceAccount)
			file := r.File()
			wantTrusted, wantUsed := []string{"", file}, file
			switch phase {
			case rotation.Trusting:
				wantUsed = ""
			case rotation.Dropping, rotation.Over:
				wantTrusted = []string{file}
			}
			if files := got.Files(ServiceAccount); !slices.Equal(files.Trusted, wantTrusted) || files.Used != wantUsed {
				t.Errorf("pods trust %q and use %q, want %q and %q", files.Trusted, files.Used, wantTrusted, wantUsed)
			}
			if want := []string{"sa-" + file + ".key", "sa-" + file + ".pub", "sa.key", "sa.pub", "sa.rotation"}; !slices.Equal(w.saFiles(), want) {
				t.Errorf("the files are %v, want %v", w.saFiles(), want)
			}
			host, contract := w.Get(w.Host, hostCopy).Data, w.Get(w.Management, "blue-sa").Data
			if !bytes.Equal(host["sa.pub"], contract["tls.crt"]) || !bytes.Equal(host["sa.key"], contract["tls.key"]) || len(contract) != 2 {
				t.Error("Cluster API's Secret and the host cluster's copy differ")
			}
			if replaced := !bytes.Equal(contract["tls.key"], born.ServiceAccountKey); replaced != (phase == rotation.Over) {
				t.Errorf("it is %t that Cluster API's Secret has the new key", replaced)
			}
			if phase == rotation.Over && (!bytes.Equal(contract["tls.key"], host["sa-"+file+".key"]) || w.has(born.ServiceAccountKey)) {
				t.Error("the former key is there")
			}
			if !bytes.Equal(w.Get(w.Management, rotations).Data["sa.rotation"], host["sa.rotation"]) {
				t.Error("the copies of the rotation differ")
			}
		})
	}
}

// has reports whether a Secret holds these bytes.
func (w *world) has(key []byte) bool {
	w.t.Helper()
	for _, c := range []client.WithWatch{w.Management, w.Host} {
		list := &corev1.SecretList{}
		if err := c.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		for i := range list.Items {
			for _, data := range list.Items[i].Data {
				if bytes.Contains(data, bytes.TrimSpace(key)) {
					return true
				}
			}
		}
	}
	return false
}

// A lost copy comes back as it is in the phase, and no key is made.
func TestALostCopyIsRepairedToThePhase(t *testing.T) {
	for _, of := range rotating {
		for _, phase := range phases {
			for _, lost := range []string{of.secret, rotations, hostCopy, "the rotation in " + hostCopy} {
				t.Run(fmt.Sprintf("%s: %s without %s", of.kind, phase, lost), func(t *testing.T) {
					w := newWorld(t)
					before := w.rotateKind(of.kind, asked, phase)
					w.running = true
					host := w.Get(w.Host, hostCopy).Data
					switch lost {
					case hostCopy:
						w.Delete(w.Host, lost)
					case of.secret, rotations:
						w.Delete(w.Management, lost)
					default:
						w.Edit(w.Host, hostCopy, func(s *corev1.Secret) { delete(s.Data, of.rotation) })
					}
					after := w.ensure()
					same(t, before, after)
					if len(after.Generated) > 0 {
						t.Errorf("it made %v", after.Generated)
					}
					if !maps.EqualFunc(host, w.Get(w.Host, hostCopy).Data, bytes.Equal) {
						t.Error("the host cluster's copy is another one")
					}
					w.settled()
				})
			}
		}
	}
}

// Whatever write is the last one, the next call goes on with the same keys to the same end.
func TestARotationThatIsKilledAfterAnyWriteGoesOn(t *testing.T) {
	for _, of := range rotating {
		t.Run(of.kind, func(t *testing.T) {
			for limit := int32(0); ; limit++ {
				if !killedAfter(t, of, limit) {
					if limit < 3 {
						t.Errorf("a phase has %d writes: nothing was killed", limit)
					}
					return
				}
			}
		})
	}
}

// killedAfter rotates a key where each phase is killed after a number of writes, and reports whether one was.
func killedAfter(t *testing.T, of rotates, limit int32) (killed bool) {
	w := newWorld(t)
	born := w.ensure()
	w.running = true
	former := w.Get(w.Host, hostCopy).Data[of.hostKey]
	var made []byte
	for _, phase := range phases {
		w.Writes.Store(0)
		w.FailFrom.Store(limit)
		material := born
		if found, err := w.store.Ensure(t.Context(), w.request()); err == nil {
			material = found
		}
		err := w.store.Rotate(t.Context(), cluster, material, of.kind, rotation.Record{Asked: asked, Phase: phase})
		if err == nil {
			_, err = w.store.Ensure(t.Context(), w.request())
		}
		killed = killed || err != nil
		w.FailFrom.Store(-1)
		material = w.ensure()
		if r := material.Rotation(of.kind); r == nil || r.Phase != phase {
			if err := w.store.Rotate(t.Context(), cluster, material, of.kind, rotation.Record{Asked: asked, Phase: phase}); err != nil {
				t.Fatal(err)
			}
			material = w.ensure()
		}
		r := material.Rotation(of.kind)
		if made == nil {
			made = r.Key[of.key]
		}
		if r.Phase != phase || !bytes.Equal(made, r.Key[of.key]) {
			t.Fatalf("after %d writes of %s it is %s, or has another key", limit, phase, r.Phase)
		}
		w.settled()
	}
	if got := w.Get(w.Management, of.secret).Data[of.key]; !bytes.Equal(got, made) || w.has(former) {
		t.Fatalf("after %d writes it does not end with the new key alone", limit)
	}
	return killed
}

func TestASecondRotationReplacesTheKeyOfTheFirst(t *testing.T) {
	w := newWorld(t)
	first := w.rotate(asked, rotation.Over)
	former := first.Rotation(ServiceAccount).File()
	const later = "2026-03-05T05:06:07Z"
	got := w.rotate(later, rotation.Using)
	r := got.Rotation(ServiceAccount)
	if files := got.Files(ServiceAccount); !slices.Equal(files.Trusted, []string{former, r.File()}) || files.Used != r.File() || former == r.File() {
		t.Fatalf("pods trust %q and use %q", files.Trusted, files.Used)
	}
	files := []string{"sa-" + former + ".key", "sa-" + former + ".pub", "sa-" + r.File() + ".key", "sa-" + r.File() + ".pub", "sa.key", "sa.pub", "sa.rotation"}
	slices.Sort(files)
	if !slices.Equal(w.saFiles(), files) {
		t.Errorf("the files are %v, want %v", w.saFiles(), files)
	}
	material := got
	for _, phase := range phases[2:] {
		if err := w.store.Rotate(t.Context(), cluster, material, ServiceAccount, rotation.Record{Asked: later, Phase: phase}); err != nil {
			t.Fatal(err)
		}
		material = w.ensure()
	}
	if w.has(first.ServiceAccountKey) {
		t.Error("the key of the first rotation is there")
	}
	w.settled()
}

// A late program must not begin a second time, nor take a phase back.
func TestALateProgramRotatesNothing(t *testing.T) {
	w := newWorld(t)
	late := w.ensure()
	now := w.rotate(asked, rotation.Using)
	if err := w.store.Rotate(t.Context(), cluster, late, ServiceAccount, rotation.Record{Asked: asked, Phase: rotation.Trusting}); !apierrors.IsConflict(err) {
		t.Errorf("it ends with %v", err)
	}
	r := w.ensure().Rotation(ServiceAccount)
	if r.Phase != rotation.Using || !bytes.Equal(r.Key["tls.key"], now.Rotation(ServiceAccount).Key["tls.key"]) {
		t.Errorf("it is %s, or has another key", r.Phase)
	}
}

// Who may create Secrets in the management cluster must not bring a key that API servers trust.
func TestARotationThatTheHostClusterDoesNotKnowIsRefused(t *testing.T) {
	other := newWorld(t)
	other.rotate(asked, rotation.Using)
	forged := other.Get(other.Management, rotations)
	forged.ResourceVersion = ""

	w := newWorld(t)
	// What names the present key can be read by everybody who has its public part.
	present := w.ensure()
	w.running = true
	var told map[string]any
	if err := json.Unmarshal(forged.Data["sa.rotation"], &told); err != nil {
		t.Fatal(err)
	}
	told["former"] = fingerprint([][]byte{present.ServiceAccountPub})
	raw, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	forged.Data["sa.rotation"] = raw
	if err := w.Management.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	_, err = w.store.Ensure(t.Context(), w.request())
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Location.Name != rotations || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("it says %v", err)
	}
	if slices.ContainsFunc(w.saFiles(), func(file string) bool { return strings.HasPrefix(file, "sa-") }) {
		t.Errorf("the host cluster's copy has %v", w.saFiles())
	}
}

// A key that is neither the former nor the new one is for a person.
func TestAKeyThatARotationDoesNotKnowIsRefused(t *testing.T) {
	other := newWorld(t).ensure()
	for _, phase := range phases {
		w := newWorld(t)
		w.rotate(asked, phase)
		w.running = true
		w.Edit(w.Management, "blue-sa", func(s *corev1.Secret) {
			s.Data["tls.crt"], s.Data["tls.key"] = other.ServiceAccountPub, other.ServiceAccountKey
		})
		w.Edit(w.Host, hostCopy, func(s *corev1.Secret) {
			s.Data["sa.pub"], s.Data["sa.key"] = other.ServiceAccountPub, other.ServiceAccountKey
		})
		var invalid *InvalidError
		if _, err := w.store.Ensure(t.Context(), w.request()); !errors.As(err, &invalid) {
			t.Errorf("%s: it says %v", phase, err)
		}
	}
}

// A key that a person brought is replaced, for the person asked for that; all else of the Secret stays theirs.
func TestTheSecretOfAPersonGetsTheNewKey(t *testing.T) {
	w := newWorld(t)
	brought := newWorld(t).ensure()
	theirs := &corev1.Secret{Data: map[string][]byte{"tls.crt": brought.ServiceAccountPub, "tls.key": brought.ServiceAccountKey}}
	theirs.Namespace, theirs.Name = cluster.Namespace, "blue-sa"
	if err := w.Management.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	w.rotate(asked, rotation.Dropping)
	if got := w.Get(w.Management, "blue-sa"); !bytes.Equal(got.Data["tls.key"], brought.ServiceAccountKey) {
		t.Error("it was replaced too early")
	}
	w.rotateOn(rotation.Over)
	got := w.Get(w.Management, "blue-sa")
	if bytes.Equal(got.Data["tls.key"], brought.ServiceAccountKey) || len(got.OwnerReferences) > 0 || len(got.Labels) > 0 {
		t.Errorf("it has the former key, or owners %v and labels %v", got.OwnerReferences, got.Labels)
	}
	w.settled()
}

func (w *world) rotateOn(phase rotation.Phase) {
	w.t.Helper()
	if err := w.store.Rotate(w.t.Context(), cluster, w.ensure(), ServiceAccount, rotation.Record{Asked: asked, Phase: phase}); err != nil {
		w.t.Fatal(err)
	}
	w.ensure()
}

// A snapshot follows the last end of a rotation, and one follows several.
func TestTheLastEndOfARotationIsTold(t *testing.T) {
	const later = "2026-03-04T06:00:00Z"
	w := newWorld(t)
	is := func(when, want string, wantDropping bool) {
		t.Helper()
		over, dropping := w.ensure().LastRotated()
		if got := over.Format(time.RFC3339); over.IsZero() != (want == "") || want != "" && got != want || dropping != wantDropping {
			t.Errorf("%s: it was over at %s, and it is %t that another is dropped", when, got, dropping)
		}
	}
	ends := func(kind, at string) {
		t.Helper()
		if err := w.store.Rotate(t.Context(), cluster, w.ensure(), kind, rotation.Record{Asked: asked, Phase: rotation.Over, Ended: at}); err != nil {
			t.Fatal(err)
		}
	}
	is("no rotation", "", false)
	w.rotate(asked, rotation.Prepared)
	is("a prepared key", "", false)
	w.rotateOn(rotation.Dropping)
	is("a key that is dropped", "", true)
	ends(ServiceAccount, later)
	is("an end", later, false)
	w.rotateKind(Encryption, asked, rotation.Dropping)
	is("another one that is dropped", later, true)
	ends(Encryption, asked)
	is("an earlier end", later, false)
	w.settled()
}

// Whoever restores from a snapshot has the bundle alone: tokens of both keys must be good then.
func TestABundleTrustsBothKeysWhileOneRotates(t *testing.T) {
	for _, phase := range phases {
		w := newWorld(t)
		born := w.ensure()
		material := w.rotate(asked, phase)
		read := throughBundle(t, material)
		public, err := keyutil.ParsePublicKeysPEM(read.ServiceAccountPub)
		if err != nil {
			t.Fatal(err)
		}
		want := 2
		if phase == rotation.Dropping || phase == rotation.Over {
			want = 1
		}
		if len(public) != want {
			t.Errorf("%s: it has %d public keys, want %d", phase, len(public), want)
		}
		if former := bytes.Equal(read.ServiceAccountKey, born.ServiceAccountKey); former != (phase == rotation.Trusting) {
			t.Errorf("%s: it is %t that it signs with the former key", phase, former)
		}
	}
}
