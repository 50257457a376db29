package status

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/pki"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
)

func TestKeysRotating(t *testing.T) {
	const asked = "2026-03-04T05:06:07Z"
	at := func(phase rotation.Phase, says string) func(*Input) {
		return func(in *Input) {
			in.Rotations = append(in.Rotations, Rotation{Kind: pki.ServiceAccount, Record: rotation.Record{Asked: asked, Phase: phase}, Says: says})
		}
	}
	beside := func(phase rotation.Phase, in func(*Input)) func(*Input) {
		return func(input *Input) {
			in(input)
			input.Rotations = append(input.Rotations, Rotation{Kind: pki.Encryption, Record: rotation.Record{Asked: asked, Phase: phase}, Says: "waits for pod b"})
		}
	}
	ca := func(phase rotation.Phase) func(*Input) {
		return func(in *Input) {
			in.Rotations = []Rotation{{Kind: string(pki.FrontProxyCA), Record: rotation.Record{Asked: asked, Phase: phase}}}
		}
	}
	is := func(reason string, says ...string) expectation {
		return expectation{status: metav1.ConditionTrue, reason: reason, says: says}
	}
	for name, test := range map[string]struct {
		in   func(*Input)
		want expectation
	}{
		"its time has not come": {at("", ""), expectation{
			status: metav1.ConditionFalse, reason: conditionsv1.KeysNotRotatingReason, says: []string{"service account key"},
		}},
		"it cannot begin": {at("", "has not begun: it begins later"), expectation{
			status: metav1.ConditionFalse, reason: conditionsv1.KeysNotRotatingReason, says: []string{"service account key", "has not begun"},
		}},
		"it is over": {at(rotation.Over, ""), expectation{
			status: metav1.ConditionFalse, reason: conditionsv1.KeysNotRotatingReason, says: []string{"service account key (Over, asked for at " + asked},
		}},
		"both come to be trusted":      {at(rotation.Trusting, "waits for pod a"), is(conditionsv1.KeysPreparingReason, "service account key (Trusting", "waits for pod a")},
		"the new one comes to be used": {at(rotation.Using, "waits for pod a"), is(conditionsv1.KeysPreparingReason, "(Using", "waits for pod a")},
		"it is prepared":               {at(rotation.Prepared, "set it"), is(conditionsv1.KeysPreparedReason, "(Prepared", "set it", "tokens that were handed out")},
		"a CA is prepared":             {ca(rotation.Prepared), is(conditionsv1.KeysPreparedReason, "front proxy CA (Prepared", "extension API servers that read ConfigMap")},
		"a CA is dropped":              {ca(rotation.Dropping), is(conditionsv1.KeysCompletingReason, "front proxy CA (Dropping")},
		"it is completed":              {at(rotation.Dropping, "waits for pod a"), is(conditionsv1.KeysCompletingReason, "(Dropping", "waits for pod a")},
		"two kinds have a line each": {beside(rotation.Using, at(rotation.Using, "waits for pod a")), is(conditionsv1.KeysPreparingReason,
			"service account key (Using, asked for at "+asked+"): waits for pod a\nencryption key (Using, asked for at "+asked+"): waits for pod b")},
		"one kind is prepared, and one not yet": {beside(rotation.Trusting, at(rotation.Prepared, "set it")), is(conditionsv1.KeysPreparingReason, "encryption key (Trusting")},
		"one kind is prepared, and one dropped": {beside(rotation.Dropping, at(rotation.Prepared, "set it")), is(conditionsv1.KeysCompletingReason, "encryption key (Dropping")},
		"one kind is prepared, and one over":    {beside(rotation.Over, at(rotation.Prepared, "set it")), is(conditionsv1.KeysPreparedReason, "encryption key (Over")},
		"keys are lost": {func(in *Input) {
			in.end(names.StepKeyMaterial, flow.Blocked(conditionsv1.KeyMaterialLostReason, errors.New("both are gone")))
		}, expectation{status: metav1.ConditionUnknown, reason: conditionsv1.KeysUnknownReason, says: []string{"both are gone"}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := settledInput()
			test.in(in)
			expect(t, keysRotating(in), test.want)
		})
	}
}

// Tokens and certificates that were handed out end by themselves. What spec says of their lives counts.
func TestWhatCannotBeSeenEndsByATimeThatIsTold(t *testing.T) {
	const since, year = "2026-03-04T05:06:07Z", "2027-03-04T05:06:07Z"
	args := func(values ...string) []controlplanev1.Arg {
		var all []controlplanev1.Arg
		for i := 0; i < len(values); i += 2 {
			all = append(all, controlplanev1.Arg{Name: values[i], Value: ptr.To(values[i+1])})
		}
		return all
	}
	const maxToken, extend, signing = "service-account-max-token-expiration", "service-account-extend-token-expiration", "cluster-signing-duration"
	const asked = "have the end that was asked for, as --service-account-max-token-expiration is not set"
	for name, test := range map[string]struct {
		kind string
		args []controlplanev1.Arg
		want string
	}{
		"tokens": {pki.ServiceAccount, nil, "those of pods end by " + year + ", and those of kubectl create token --duration " + asked + "; restart"},
		"tokens that end sooner where a program asks for it": {pki.ServiceAccount, args(maxToken, "48h"), ": they end by " + year},
		"tokens that may live longer":                        {pki.ServiceAccount, args(maxToken, "17520h"), ": they end by 2028-03-03T05:06:07Z"},
		"tokens of pods that are not extended":               {pki.ServiceAccount, args(extend, "false"), ": they " + asked},
		"... and end":                                        {pki.ServiceAccount, args(extend, "false", maxToken, "48h"), ": they end by 2026-03-06T05:06:07Z"},
		"an argument that means what is the default":         {pki.ServiceAccount, args(extend, "true"), "those of pods end by " + year},
		"certificates":                                       {string(pki.ClusterCA), nil, "which end by " + year},
		"certificates that live longer":                      {string(pki.ClusterCA), args(signing, "17520h"), "which end by 2028-03-03T05:06:07Z"},
		// Kubeconfigs that the manager makes are good for a year.
		"certificates that live shorter": {string(pki.ClusterCA), args(signing, "24h"), "which end by " + year},
		"a CA of etcd":                   {string(pki.EtcdCA), nil, "certificates that people took"},
		"the encryption key":             {pki.Encryption, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := settledInput()
			in.ControlPlane.Spec.KubeAPIServer.ExtraArgs, in.ControlPlane.Spec.KubeControllerManager.ExtraArgs = test.args, test.args
			in.Rotations = []Rotation{{Kind: test.kind, Record: rotation.Record{Asked: since, Phase: rotation.Prepared, Since: since}}}
			_, got, _ := strings.Cut(keysRotating(in).Message, "what cannot be seen: ")
			if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
}

func TestKeysRotatingIsThereWhileThereIsSomethingToTell(t *testing.T) {
	asks := func(in *Input) {
		in.ControlPlane.Spec.KeyRotation.Kinds = []controlplanev1.KeyKind{controlplanev1.ServiceAccountKeyKind}
	}
	was := func(in *Input) {
		conditions.Set(in.ControlPlane, Condition(conditionsv1.KeysRotatingCondition, metav1.ConditionTrue, conditionsv1.KeysPreparedReason))
	}
	at := func(phase rotation.Phase) func(*Input) {
		return func(in *Input) {
			in.Rotations = []Rotation{{Kind: pki.ServiceAccount}, {Kind: pki.Encryption, Record: rotation.Record{Phase: phase}}}
		}
	}
	for name, test := range map[string]struct {
		is   []func(*Input)
		want bool
	}{
		"nobody ever asked":                        {},
		"somebody asks":                            {[]func(*Input){asks}, true},
		"nobody asks any more, and it is prepared": {[]func(*Input){was, at(rotation.Prepared)}, true},
		"nobody asks any more, and it is over":     {[]func(*Input){was, at(rotation.Over)}, false},
		"nobody knows": {[]func(*Input){was, func(in *Input) {
			in.end(names.StepKeyMaterial, flow.Failed(errors.New("no answer")))
		}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := settledInput()
			for _, change := range test.is {
				change(in)
			}
			setConditions(in, settled())
			if got := conditions.Get(in.ControlPlane, conditionsv1.KeysRotatingCondition) != nil; got != test.want {
				t.Errorf("it is %t that the condition is there", got)
			}
		})
	}
}
