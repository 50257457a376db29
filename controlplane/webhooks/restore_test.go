package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
)

func TestRestoresAreAskedForWhenTheyCanBegin(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	type etcd = *controlplanev1.EtcdRestoreSpec
	at := func(after time.Duration) etcd {
		return &controlplanev1.EtcdRestoreSpec{Snapshot: "a", RequestedAt: metav1.NewTime(now.Add(after))}
	}
	another := func(after time.Duration) etcd {
		return &controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-1", RequestedAt: at(after).RequestedAt}
	}
	begins := &controlplanev1.EtcdRestoreSpec{Snapshot: "a"}
	const empty, founded, initialized, restoring, foundedAnew, restored = "empty", "founded", "initialized", "restoring", "founded anew", "restored"
	for name, test := range map[string]struct {
		before, after etcd
		is            string
		refused       string
	}{
		"there is none":                                            {nil, nil, empty, ""},
		"it begins with a snapshot, and goes on":                   {begins, begins, empty, ""},
		"a snapshot is added to a new one":                         {nil, begins, empty, "restore"},
		"a snapshot is added when etcd has data":                   {nil, begins, founded, "restore"},
		"a snapshot is taken away that it began with":              {begins, nil, founded, ""},
		"a snapshot is taken away before it was restored":          {begins, nil, empty, "restore"},
		"a restore in place is asked for":                          {nil, at(0), founded, ""},
		"... of a control plane that began with a snapshot":        {begins, at(0), initialized, ""},
		"... by a clock that is a little ahead":                    {nil, at(mostAhead), founded, ""},
		"... by a clock that is far ahead":                         {nil, at(mostAhead + time.Second), founded, "restore.requestedAt"},
		"... long ago":                                             {nil, at(-time.Hour), founded, ""},
		"... after another one was taken away that is over":        {nil, at(0), restored, ""},
		"the one that is over is asked for again":                  {nil, at(-time.Minute), restored, "restore.requestedAt"},
		"one is asked for that is older than the last":             {nil, at(-time.Hour), restored, "restore.requestedAt"},
		"... of a control plane without data":                      {nil, at(0), empty, "restore.requestedAt"},
		"... of one that still begins with a snapshot":             {begins, at(0), empty, "restore.requestedAt"},
		"another one is asked for while one is under way":          {at(0), at(time.Second), restoring, ""},
		"... at the time of that one":                              {at(0), another(0), restoring, "restore.requestedAt"},
		"... before that one":                                      {at(0), another(-time.Second), restoring, "restore.requestedAt"},
		"... of a control plane that never worked":                 {at(0), another(time.Second), foundedAnew, ""},
		"the one that is under way is asked for again":             {another(time.Second), at(0), restoring, ""},
		"one is taken away that is under way":                      {at(0), nil, restoring, "restore"},
		"one is taken away that has ended, or never began":         {at(0), nil, initialized, ""},
		"requestedAt is taken away":                                {at(0), begins, initialized, "restore"},
		"a request far ahead, which a move brought along, is kept": {at(time.Hour), at(time.Hour), initialized, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := &controlplanev1.KOKControlPlane{}
			before.Spec.Etcd.Restore = test.before
			before.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "data", Bootstrapped: ptr.To(test.is == founded || test.is == restored)}}
			if test.is == restored {
				before.Status.Etcd[0].RestoredAt = at(-time.Minute).RequestedAt
			}
			if test.is == restoring || test.is == foundedAnew {
				before.Status.Etcd[0].Restoring = &controlplanev1.EtcdRestoringStatus{RequestedAt: at(0).RequestedAt, Snapshot: at(0).Snapshot}
			}
			if test.is == initialized || test.is == restoring {
				conditions.Set(before, metav1.Condition{Type: conditionsv1.InitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized"})
			}
			if test.is == restoring {
				conditions.Set(before, metav1.Condition{Type: conditionsv1.EtcdRecoveringCondition, Status: metav1.ConditionTrue, Reason: conditionsv1.RestoringReason})
			}
			errs := validateRestoreChange(before, controlplanev1.EtcdSpec{Restore: test.after}, now, field.NewPath("restore"))
			if test.refused == "" && len(errs) > 0 || test.refused != "" && (len(errs) != 1 || errs[0].Field != test.refused) {
				t.Errorf("got %v, want one for %q", errs, test.refused)
			}
		})
	}
}

func TestSurvivorsAndMembersGivenUpHaveNamesOfMembers(t *testing.T) {
	for _, test := range []struct {
		spec    controlplanev1.EtcdSpec
		refused string
	}{
		{controlplanev1.EtcdSpec{}, ""},
		{controlplanev1.EtcdSpec{Restore: &controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-data-2"}, GivenUp: []string{"blue-etcd-data-0", "blue.one-etcd-data-10"}}, ""},
		{controlplanev1.EtcdSpec{Restore: &controlplanev1.EtcdRestoreSpec{Survivor: "2"}}, "etcd.restore.survivor"},
		{controlplanev1.EtcdSpec{Restore: &controlplanev1.EtcdRestoreSpec{Survivor: "blue-etcd-events-2"}}, "etcd.restore.survivor"},
		{controlplanev1.EtcdSpec{GivenUp: []string{"blue-etcd-data-0", "host-1"}}, "etcd.givenUp[1]"},
	} {
		errs := validateRestore(test.spec, field.NewPath("etcd"))
		if test.refused == "" && len(errs) > 0 || test.refused != "" && (len(errs) != 1 || errs[0].Field != test.refused) {
			t.Errorf("%+v: got %v, want one for %q", test.spec, errs, test.refused)
		}
	}
}

func TestATemplateHasNoRestore(t *testing.T) {
	errs := validateTemplateEtcd(controlplanev1.EtcdSpec{
		Restore: &controlplanev1.EtcdRestoreSpec{Snapshot: "a"}, GivenUp: []string{"blue-etcd-data-0"},
	}, field.NewPath("etcd"))
	if len(errs) != 2 || errs[0].Field != "etcd.restore" || errs[1].Field != "etcd.givenUp" {
		t.Errorf("a template may have it: %v", errs)
	}
}

func TestEventsBeginAnewAtATimeThatHasPassedAndIsNotTakenBack(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	at := func(ahead time.Duration) controlplanev1.EtcdEventsSpec {
		return controlplanev1.EtcdEventsSpec{FoundAnewAt: metav1.NewTime(now.Add(ahead))}
	}
	for name, test := range map[string]struct {
		before, after controlplanev1.EtcdEventsSpec
		byItself      time.Duration
		says          string
	}{
		"it is asked for":                    {after: at(0)},
		"it is asked for again":              {before: at(-time.Hour), after: at(0)},
		"nothing changes":                    {before: at(-time.Hour), after: at(-time.Hour)},
		"the clock of a person is ahead":     {after: at(time.Minute)},
		"it is yet to come":                  {after: at(time.Hour), says: "must have passed"},
		"it is taken away":                   {before: at(-time.Hour), says: "cannot be taken away"},
		"it becomes earlier":                 {before: at(-time.Hour), after: at(-2 * time.Hour), says: "must be later than 2026-03-04T04:00:00Z"},
		"it was done by itself before":       {byItself: -time.Minute, after: at(0)},
		"it was done by itself since":        {byItself: -time.Minute, after: at(-time.Hour), says: "must be later than 2026-03-04T04:59:00Z"},
		"there is no etcd with events alone": {after: controlplanev1.EtcdEventsSpec{Mode: controlplanev1.EtcdEventsInData, FoundAnewAt: metav1.NewTime(now)}, says: "events.mode is InData"},
	} {
		t.Run(name, func(t *testing.T) {
			before := &controlplanev1.KOKControlPlane{}
			before.Spec.Etcd.Events = test.before
			if test.byItself != 0 {
				before.Status.Etcd = []controlplanev1.EtcdClusterStatus{{Name: "events", RestoredAt: metav1.NewTime(now.Add(test.byItself))}}
			}
			errs := validateFoundAnewChange(before, test.after, now, field.NewPath("foundAnewAt"))
			expectSays(t, errs, test.says)
		})
	}
}

// expectSays sees to it that errors say something, or that there are none where they should say nothing.
func expectSays(t *testing.T, errs field.ErrorList, says string) {
	t.Helper()
	if (len(errs) > 0) != (says != "") || !strings.Contains(fmt.Sprint(errs), says) {
		t.Errorf("it says %v, want %q", errs, says)
	}
}
