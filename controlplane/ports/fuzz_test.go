package ports

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// FuzzClaims: a claim that is accepted has the name that Claims gives to the claim of its block. So no two claims are of one block.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{"kok-ports-20000", "kok-ports-020000", "20000", "kok-ports-", "kok-ports-20001", "kok-ports-0", "kok-ports-65535", "kok-ports-65520", "kok-ports-70000", "kok-ports-kok-ports-20000", "kok-ports-+20000",
		"kok-ports-20000.north", "kok-ports-20000.", "kok-ports-20000.a.b", "kok-ports-20000.20020", "kok-ports-north.20000"} {
		f.Add(seed)
	}
	claims := &Claims{namespace: "kok-system", span: DefaultRange}
	f.Fuzz(func(t *testing.T, name string) {
		claim := claims.claim(client.ObjectKey{Namespace: "team", Name: "blue"}, 0)
		claim.Name = name
		pool, port, err := blockOf(claim)
		if err != nil {
			return
		}
		if made := claims.In(pool).claim(holder(claim), port); made.Name != name {
			t.Errorf("%q is taken for the claim of %d, which is %q", name, port, made.Name)
		}
		if block := Block(port); block.First < 1 || block.Last > 65535 {
			t.Errorf("%q is the claim of %s", name, block)
		}
	})
}

// stored is a ConfigMap that somebody wrote among the claims.
type stored struct {
	// name is the name of the ConfigMap. Its data say that the Cluster with this namespace and name holds it; an empty value is left out.
	name, namespace, cluster string
	// The labels are those of a component of this Cluster.
	labelledNamespace, labelledCluster, component string
	// key and content are one more entry of the data, and an annotation.
	key, content string
}

func (s stored) claim(in string) *corev1.ConfigMap {
	claim := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: in, Name: s.name, Labels: names.ComponentLabels(client.ObjectKey{Namespace: s.labelledNamespace, Name: s.labelledCluster}, s.component),
	}}
	claim.Data = map[string]string{}
	for _, pair := range [][2]string{{s.key, s.content}, {namespaceKey, s.namespace}, {nameKey, s.cluster}} {
		if pair[0] != "" && pair[1] != "" {
			claim.Data[pair[0]] = pair[1]
		}
	}
	if s.key != "" {
		claim.Annotations, claim.BinaryData = map[string]string{s.key: s.content}, map[string][]byte{s.key: []byte(s.content)}
	}
	return claim
}

// FuzzStoredClaims: somebody stores any ConfigMap among the claims. A Cluster still gets a block of its own, or an error that says what a person
// has to do. It takes nothing away from others. When it goes, it holds nothing any more.
func FuzzStoredClaims(f *testing.F) {
	const kept = "kok-system"
	blue, green := client.ObjectKey{Namespace: "team", Name: "blue"}, client.ObjectKey{Namespace: "team", Name: "green"}
	for _, s := range []stored{
		{"kok-ports-20000", "team", "blue", "team", "blue", Component, "", ""},                   // its own
		{"kok-ports-20000", "team", "green", "team", "green", Component, "", ""},                 // another's
		{"kok-ports-20000", "team", "green", "team", "blue", Component, "", ""},                  // another's, with its labels
		{"kok-ports-20000", "team", "blue", "team", "green", Component, "", ""},                  // its own, with another's labels
		{"kok-ports-20000", "team", "blue", "other", "blue", "kube-scheduler", "", ""},           // its own, with labels of no claim
		{"kok-ports-20000", "", "", "team", "blue", Component, "", ""},                           // nobody's, with its labels
		{"kok-ports-20000", "team", "", "team", "blue", Component, "", ""},                       // half of it
		{"kok-ports-20001", "team", "blue", "team", "blue", Component, "", ""},                   // of no block
		{"kok-ports-020000", "team", "blue", "team", "blue", Component, "", ""},                  // of the same block by another name
		{"kok-ports-40000", "team", "blue", "team", "blue", Component, "", ""},                   // beyond the range
		{"kok-ports-65520", "team", "blue", "team", "blue", Component, "", ""},                   // its last ports do not exist
		{"kok-ports-20000.north", "team", "blue", "team", "blue", Component, "", ""},             // of a port pool
		{"kok-ports-20000.", "team", "blue", "team", "blue", Component, "", ""},                  // of a pool without a name
		{"kok-kubernetes-versions", "team", "blue", "team", "blue", Component, "", ""},           // no claim at all
		{"kok-ports-20000", "TEAM", "blue\x00", "team", "blue", Component, "", ""},               // almost its own
		{"kok-ports-20000", "team", "blue", "team", "blue", Component, "clusterName", "green"},   // of two
		{"kok-ports-20020", "team", "green", "team", "green", Component, "example.com/a", "b"},   // with more
		{"kok-ports-20040", "team/blue", "green", "team", "green", Component, "clusterName", ""}, // of a name with a slash
		{"", "team", "blue", "team", "blue", Component, "", ""},                                  // not stored: it has no name
	} {
		for _, pinned := range []uint16{0, 20000, 20020, 20001, 40000} {
			f.Add(s.name, s.namespace, s.cluster, s.labelledNamespace, s.labelledCluster, s.component, s.key, s.content, pinned)
		}
	}
	f.Fuzz(func(t *testing.T, name, namespace, cluster, labelledNamespace, labelledCluster, component, key, content string, pinned uint16) {
		foreign := stored{name, namespace, cluster, labelledNamespace, labelledCluster, component, key, content}.claim(kept)
		// No API server stores an object without a name, or with a text that is not UTF-8.
		builder, isStored := fake.NewClientBuilder(), name != "" && utf8.ValidString(strings.Join([]string{
			name, namespace, cluster, labelledNamespace, labelledCluster, component, key, content,
		}, ""))
		if isStored {
			builder.WithObjects(foreign.DeepCopy())
		}
		api := builder.Build()
		claims := New(api, api, kept, Span{First: 20000, Last: 20059})
		// The schema of a control plane takes no other first port.
		wanted := int32(pinned) / controlplanev1.PortBlockSize * controlplanev1.PortBlockSize

		// unchanged fails the test where the stored ConfigMap is another one, unless one of these Clusters holds it.
		unchanged := func(after string, of ...client.ObjectKey) {
			t.Helper()
			if !isStored || slices.Contains(of, holder(foreign)) {
				return
			}
			now := &corev1.ConfigMap{}
			err := api.Get(t.Context(), client.ObjectKeyFromObject(foreign), now)
			now.ResourceVersion = ""
			if err != nil || !equality.Semantic.DeepEqual(now, foreign) {
				t.Fatalf("%s what is of %s is another: %v %s", after, holder(foreign), err, cmp.Diff(foreign, now))
			}
		}
		held := func(of client.ObjectKey, port int32, err error) bool {
			t.Helper()
			if err != nil {
				var taken *HeldError
				var outside *OutsideError
				var exhausted *ExhaustedError
				if !errors.As(err, &taken) && !errors.As(err, &outside) && !errors.As(err, &exhausted) && !strings.Contains(err.Error(), "delete it") {
					t.Errorf("%s is told: %v", of, err)
				}
				return false
			}
			claim := &corev1.ConfigMap{}
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: kept, Name: namePrefix + strconv.Itoa(int(port))}, claim); err != nil || holder(claim) != of {
				t.Errorf("%s has the block of %d, whose claim is of %s: %v", of, port, holder(claim), err)
			}
			for label, value := range names.ComponentLabels(of, Component) {
				if claim.Labels[label] != value {
					t.Errorf("the claim of %d is not found by the labels of %s: %v", port, of, claim.Labels)
				}
			}
			if block := Block(port); port%controlplanev1.PortBlockSize != 0 || block.First < 1 || block.Last > 65535 {
				t.Errorf("%s has the block %s", of, block)
			}
			return true
		}

		first, err := claims.Claim(t.Context(), blue, wanted)
		has := held(blue, first, err)
		if has && wanted != 0 && first != wanted {
			t.Errorf("it has %d and wanted %d", first, wanted)
		}
		unchanged("after a claim of blue", blue)
		if has {
			// A Cluster that asks again has the same block.
			if again, err := claims.Claim(t.Context(), blue, 0); err != nil || again != first {
				t.Errorf("it has %d, and then %d, %v", first, again, err)
			}
		}
		other, err := claims.Claim(t.Context(), green, 0)
		if held(green, other, err) && has && other == first {
			t.Errorf("two Clusters have the block of %d", first)
		}
		if err := claims.Release(t.Context(), blue); err != nil {
			t.Fatal(err)
		}
		unchanged("after blue has gone", blue, green)
		if left, err := claims.heldBy(t.Context(), api, blue); err != nil || len(left) > 0 {
			t.Errorf("blue has gone and holds %v, %v", left, err)
		}
	})
}

// FuzzRanges: a range that is accepted is read again as the same range from its text. Its blocks lie in it.
func FuzzRanges(f *testing.F) {
	for _, seed := range []string{"20000-29999", "1024-1055", "1024-1024", "0-65535", "29999-20000", "61000-65535", "65520-65535", "a-b", "", "-", "020000-29999", "20000-29999-1", "30000-30100", "1000-2000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		span, err := ParseRange(text)
		if err != nil {
			return
		}
		if again, err := ParseRange(span.String()); err != nil || again != span {
			t.Errorf("%q is %s, and that is %s, %v", text, span, again, err)
		}
		last := Block(span.firstBlock() + (span.blocks()-1)*controlplanev1.PortBlockSize)
		if span.blocks() < 1 || !span.Contains(Block(span.firstBlock())) || !span.Contains(last) || span.Contains(Block(last.Last+1)) {
			t.Errorf("%s has %d blocks from %d on", span, span.blocks(), span.firstBlock())
		}
	})
}
