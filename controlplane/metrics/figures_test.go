package metrics

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
	conditionsv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1/conditions"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/operator"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/flow"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/rotation"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/status"
)

var errStep = errors.New("broken")

func clientKey(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

// measured is the input of a settled control plane, changed.
func measured(changes ...func(*status.Input)) *status.Input {
	controlPlane := &controlplanev1.KOKControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "blue", UID: "1"}}
	controlPlane.Spec.Version = "v1.35.1"
	controlPlane.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.35.1", Replicas: 3}}
	for _, name := range []string{"data", "events"} {
		cluster := controlplanev1.EtcdClusterStatus{Name: name, Bootstrapped: ptr.To(true)}
		for i := range 3 {
			cluster.Members = append(cluster.Members, controlplanev1.EtcdMemberStatus{Name: fmt.Sprint(i), State: controlplanev1.EtcdMemberVoter})
		}
		controlPlane.Status.Etcd = append(controlPlane.Status.Etcd, cluster)
	}
	for _, spec := range []*controlplanev1.EtcdClusterSpec{&controlPlane.Spec.Etcd.Data, &controlPlane.Spec.Etcd.Events.EtcdClusterSpec} {
		spec.Replicas = ptr.To[int32](3)
	}
	s := &status.Input{Cluster: client.ObjectKey{Namespace: "team", Name: "blue"}, ControlPlane: controlPlane}
	for _, change := range changes {
		change(s)
	}
	return s
}

func upgradeTo(version string) func(*status.Input) {
	return func(s *status.Input) { s.ControlPlane.Spec.Version = version }
}

// tooOldKubelets make an upgrade wait.
func tooOldKubelets(s *status.Input) {
	s.Outcomes = []flow.Outcome{{Name: names.StepVersion, Ran: true, Result: flow.Postponed("kubelets")}}
}

func TestAnUpgradeWaitsForOneThing(t *testing.T) {
	wanted := upgradeTo("v1.36.3")
	for name, test := range map[string]struct {
		is   []func(*status.Input)
		want string
	}{
		"there is none": {},
		"it goes on":    {is: []func(*status.Input){wanted}},
		"a race is no failure": {is: []func(*status.Input){wanted, func(s *status.Input) {
			s.Outcomes = []flow.Outcome{{Result: flow.Failed(apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "a", errStep))}}
		}}},
		"kubelets are too old":                  {is: []func(*status.Input){wanted, tooOldKubelets}, want: "kubelets"},
		"no table has the version":              {is: []func(*status.Input){wanted, func(s *status.Input) { s.Unsupported = errStep }}, want: "version"},
		"patches are refused":                   {is: []func(*status.Input){wanted, func(s *status.Input) { s.Refused = errStep }}, want: "patches"},
		"etcd gains members":                    {is: []func(*status.Input){wanted, func(s *status.Input) { s.ControlPlane.Spec.Etcd.Data.Replicas = ptr.To[int32](5) }}, want: "etcd-members"},
		"a step fails":                          {is: []func(*status.Input){wanted, func(s *status.Input) { s.Outcomes = []flow.Outcome{{Result: flow.Failed(errStep)}} }}, want: "failure"},
		"what fails without an upgrade is none": {is: []func(*status.Input){func(s *status.Input) { s.Outcomes = []flow.Outcome{{Result: flow.Failed(errStep)}} }}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := upgradeWaits(measured(test.is...)); got != test.want {
				t.Errorf("it waits for %q, want %q", got, test.want)
			}
		})
	}
}

func TestFiguresFollowAControlPlaneAndGoWithIt(t *testing.T) {
	f := &Figures{}
	end := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	answered := &status.Observation{Etcd: map[string]*operator.Report{names.EtcdData: {Health: &etcd.Health{Members: []etcd.Member{
		{DatabaseSize: 100, DatabaseInUse: 90, DatabaseQuota: 1000, Answered: true, Listed: true, Leader: true, Committed: 50, Applied: 50},
		{DatabaseSize: 300, DatabaseInUse: 40, DatabaseQuota: 900, Answered: true, Listed: true, Learner: true, Applied: 38},
		{Err: errStep, Listed: true},
	}}}}}
	size := func() float64 { return testutil.ToFloat64(databaseBytes.WithLabelValues("team", "blue", "data")) }
	s := measured(upgradeTo("v1.36.3"), func(s *status.Input) {
		tooOldKubelets(s)
	})
	f.Record(s, answered, end)
	f.Record(s, &status.Observation{}, time.Time{})
	for what, got := range map[string][2]float64{
		"the largest database":     {size(), 300},
		"what is in use of it":     {testutil.ToFloat64(databaseInUseBytes.WithLabelValues("team", "blue", "data")), 40},
		"that a member leads":      {testutil.ToFloat64(hasLeader.WithLabelValues("team", "blue", "data")), 1},
		"the slowest member's lag": {testutil.ToFloat64(memberLag.WithLabelValues("team", "blue", "data")), 12},
		"members that vote":        {testutil.ToFloat64(members.WithLabelValues("team", "blue", "data", memberHealthy)), 1},
		"members that learn":       {testutil.ToFloat64(members.WithLabelValues("team", "blue", "data", memberLearner)), 1},
		"members that fail":        {testutil.ToFloat64(members.WithLabelValues("team", "blue", "data", memberFailing)), 1},
		"the smallest quota":       {testutil.ToFloat64(databaseQuotaBytes.WithLabelValues("team", "blue", "data")), 900},
		"the first end":            {testutil.ToFloat64(certificatesEnd.WithLabelValues("team", "blue")), float64(end.Unix())},
		"the upgrade that waits":   {testutil.ToFloat64(upgradesWaiting.WithLabelValues("kubelets")), 1},
		"series of etcd":           {float64(seriesOf(t, "team", "blue", databaseBytes)), 1},
		"reasons without upgrades": {testutil.ToFloat64(upgradesWaiting.WithLabelValues("failure")), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %v, want %v", what, got[0], got[1])
		}
	}

	s.Outcomes = []flow.Outcome{{Result: flow.Failed(errStep)}}
	f.Record(s, answered, end)
	if kubelets, failure := testutil.ToFloat64(upgradesWaiting.WithLabelValues("kubelets")), testutil.ToFloat64(upgradesWaiting.WithLabelValues("failure")); kubelets != 0 || failure != 1 {
		t.Errorf("%v wait for kubelets and %v for a failure", kubelets, failure)
	}
	s.ControlPlane.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.36.3"}}
	f.Record(s, answered, end)
	f.Forget(clientKey(s.ControlPlane))
	f.Forget(clientKey(s.ControlPlane))
	left := seriesOf(t, "team", "blue", databaseBytes, databaseQuotaBytes, certificatesEnd)
	if failure := testutil.ToFloat64(upgradesWaiting.WithLabelValues("failure")); left != 0 || failure != 0 {
		t.Errorf("of one that is gone %d series are left, and %v upgrades", left, failure)
	}
}

func TestOnlyWhatWasSeenOfAnEtcdChangesWhetherItWaitsForAPerson(t *testing.T) {
	f := &Figures{}
	see := func(restoring string, report *operator.Report) float64 {
		s := measured(func(s *status.Input) { s.Restoring = map[string]string{names.EtcdData: restoring} })
		f.Record(s, &status.Observation{Etcd: map[string]*operator.Report{names.EtcdData: report}}, time.Time{})
		return testutil.ToFloat64(needsDecision.WithLabelValues("team", "blue", "data"))
	}
	answers := &etcd.Health{Members: []etcd.Member{{Answered: true, Listed: true}}}
	for _, step := range []struct {
		what, restoring string
		report          *operator.Report
		want            float64
	}{
		{"all is well", "", &operator.Report{Health: answers}, 0},
		{"a quorum is lost for good", "", &operator.Report{Recovery: "lost", NeedsDecision: true}, 1},
		{"nothing was seen", "", nil, 1},
		{"its facts could not be read", "", &operator.Report{Recovery: "unknown", FactsMissing: true}, 1},
		{"nobody answers", "", &operator.Report{Health: &etcd.Health{Err: errStep}}, 1},
		{"it is founded anew", "members stop", nil, 0},
		{"a quorum is lost again", "", &operator.Report{Recovery: "lost", NeedsDecision: true}, 1},
		{"it recovers", "", &operator.Report{Recovery: "replaces a member"}, 0},
	} {
		if got := see(step.restoring, step.report); got != step.want {
			t.Errorf("%s: it is %v, want %v", step.what, got, step.want)
		}
	}
}

func TestABackupTellsHowOftenItIsWanted(t *testing.T) {
	f := &Figures{}
	s := measured(func(s *status.Input) {
		s.ControlPlane.Spec.Etcd.Backup = &controlplanev1.EtcdBackupSpec{Every: &metav1.Duration{Duration: 2 * time.Hour}}
	})
	f.Record(s, &status.Observation{}, time.Time{})
	if got := testutil.ToFloat64(snapshotInterval.WithLabelValues("team", "blue")); got != 7200 {
		t.Errorf("it is %v s", got)
	}
	s.ControlPlane.Spec.Etcd.Backup = nil
	f.Record(s, &status.Observation{}, time.Time{})
	if got := seriesOf(t, "team", "blue", snapshotInterval, newestSnapshot); got != 0 {
		t.Errorf("without a backup %d series are left", got)
	}
}

// rotates adds a rotation of the encryption key, in a phase, to what a reconcile knows.
func rotates(phase rotation.Phase) func(*status.Input) {
	return func(s *status.Input) {
		s.Outcomes = []flow.Outcome{{Name: names.StepKeyMaterial, Ran: true, Result: flow.Done()}}
		s.Rotations = []status.Rotation{{Asked: controlplanev1.EncryptionKeyKind, Record: rotation.Record{Phase: phase}}}
	}
}

func TestARotationHasASeriesOfItsPhaseAlone(t *testing.T) {
	f := &Figures{}
	const namespace, name = "team", "rotating"
	in := func(s *status.Input) { s.Cluster.Name, s.ControlPlane.Name = name, name }
	is := func(phase rotation.Phase) float64 {
		t.Helper()
		if seriesOf(t, namespace, name, keyRotations) != 1 {
			return -1
		}
		return testutil.ToFloat64(keyRotations.WithLabelValues(namespace, name, "EncryptionKey", string(phase)))
	}
	f.Record(measured(in), &status.Observation{}, time.Time{})
	if got := seriesOf(t, namespace, name, keyRotations); got != 0 {
		t.Errorf("without a rotation there are %d series", got)
	}
	for _, phase := range []rotation.Phase{rotation.Trusting, rotation.Using, rotation.Prepared, rotation.Dropping, rotation.Using} {
		f.Record(measured(in, rotates(phase)), &status.Observation{}, time.Time{})
		if got := is(phase); got != 1 {
			t.Errorf("in the phase %s it is %v", phase, got)
		}
		f.Record(measured(in), &status.Observation{}, time.Time{})
		if got := is(phase); got != 1 {
			t.Errorf("while keys cannot be read the phase %s is %v", phase, got)
		}
	}
	f.Record(measured(in, rotates(rotation.Over)), &status.Observation{}, time.Time{})
	if got := seriesOf(t, namespace, name, keyRotations); got != 0 {
		t.Errorf("after the rotation there are %d series", got)
	}
	rotating := measured(in, rotates(rotation.Trusting))
	f.Record(rotating, &status.Observation{}, time.Time{})
	f.Forget(clientKey(rotating.ControlPlane))
	if got := seriesOf(t, namespace, name, keyRotations); got != 0 {
		t.Errorf("after the tenant is gone there are %d series", got)
	}
}

// Prometheus sees no increase in a series that begins with 1, and the alert on lost members would miss the first one.
func TestRecoveriesAreZeroBeforeTheFirstOne(t *testing.T) {
	f := &Figures{}
	s := measured()
	s.Cluster.Name = "unharmed"
	f.Record(s, &status.Observation{}, time.Time{})
	if got := seriesOf(t, s.Cluster.Namespace, s.Cluster.Name, operator.Recoveries); got != 2 {
		t.Fatalf("there are %d series", got)
	}
	operator.Recoveries.WithLabelValues(s.Cluster.Namespace, s.Cluster.Name, "data").Inc()
	f.Record(s, &status.Observation{}, time.Time{})
	for etcd, want := range map[string]float64{"data": 1, "events": 0} {
		if got := testutil.ToFloat64(operator.Recoveries.WithLabelValues(s.Cluster.Namespace, s.Cluster.Name, etcd)); got != want {
			t.Errorf("%s counts %v, want %v", etcd, got, want)
		}
	}
	f.Forget(clientKey(s.ControlPlane))
	if got := seriesOf(t, s.Cluster.Namespace, s.Cluster.Name, operator.Recoveries); got != 0 {
		t.Errorf("after the tenant is gone there are %d series", got)
	}
}

func TestForgetDropsTheRecoveriesOfOneTenant(t *testing.T) {
	f := &Figures{}
	s := measured()
	f.Record(s, &status.Observation{}, time.Time{})
	for _, of := range [][]string{{"team", "blue", "data"}, {"team", "blue", "events"}, {"team", "red", "data"}, {"other", "blue", "data"}} {
		operator.Recoveries.WithLabelValues(of...).Inc()
	}
	left := func() [3]int {
		return [3]int{seriesOf(t, "team", "blue", operator.Recoveries), seriesOf(t, "team", "red", operator.Recoveries), seriesOf(t, "other", "blue", operator.Recoveries)}
	}
	if got := left(); got != [3]int{2, 1, 1} {
		t.Errorf("tenants have %v series", got)
	}
	f.Record(s, &status.Observation{}, time.Time{})
	if got := left(); got != [3]int{2, 1, 1} {
		t.Errorf("while they are there, tenants have %v series", got)
	}
	f.Forget(clientKey(s.ControlPlane))
	if got := left(); got != [3]int{0, 1, 1} {
		t.Errorf("after one is gone, tenants have %v series", got)
	}
}

// seriesOf counts the series of one tenant; other tests of this package leave some of theirs.
func seriesOf(t *testing.T, namespace, name string, collectors ...prometheus.Collector) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, family := range families {
		for _, series := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range series.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["cluster_namespace"] == namespace && labels["cluster_name"] == name {
				count++
			}
		}
	}
	return count
}

func TestTenantState(t *testing.T) {
	is := func(conditionType string, is metav1.ConditionStatus) func(*controlplanev1.KOKControlPlane) {
		return func(c *controlplanev1.KOKControlPlane) {
			conditions.Set(c, status.Condition(conditionType, is, "Because"))
		}
	}
	for want, edit := range map[string]func(*controlplanev1.KOKControlPlane){
		"available":   is(conditionsv1.AvailableCondition, metav1.ConditionTrue),
		"unavailable": is(conditionsv1.AvailableCondition, metav1.ConditionFalse),
		"unknown":     is(conditionsv1.AvailableCondition, metav1.ConditionUnknown),
		"paused": func(c *controlplanev1.KOKControlPlane) {
			is(conditionsv1.AvailableCondition, metav1.ConditionTrue)(c)
			is(clusterv1.PausedCondition, metav1.ConditionTrue)(c)
		},
		"deleting": func(c *controlplanev1.KOKControlPlane) {
			is(clusterv1.PausedCondition, metav1.ConditionTrue)(c)
			c.DeletionTimestamp = ptr.To(metav1.Now())
		},
	} {
		controlPlane := &controlplanev1.KOKControlPlane{}
		edit(controlPlane)
		if got := tenantState(controlPlane); got != want {
			t.Errorf("%s is counted as %s", want, got)
		}
	}
	if got := tenantState(&controlplanev1.KOKControlPlane{}); got != "unknown" {
		t.Errorf("a new one is counted as %s", got)
	}
}

// An alert on the age of the newest snapshot finds a backup that never worked, too.
func TestABackupThatNeverWorkedHasAnAge(t *testing.T) {
	f, seen := &Figures{}, &status.Observation{}
	created, taken := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	in := measured(func(s *status.Input) { s.ControlPlane.CreationTimestamp = created })
	for _, test := range []struct {
		backup *controlplanev1.EtcdBackupSpec
		newest *controlplanev1.NewestSnapshotStatus
		series int
		want   float64
	}{
		{nil, nil, 0, 0},
		{&controlplanev1.EtcdBackupSpec{}, nil, 1, 1000},
		{&controlplanev1.EtcdBackupSpec{}, &controlplanev1.NewestSnapshotStatus{TakenAt: taken}, 1, 2000},
		{nil, nil, 0, 0},
	} {
		in.ControlPlane.Spec.Etcd.Backup, in.ControlPlane.Status.NewestSnapshot = test.backup, test.newest
		f.Record(in, seen, time.Time{})
		if got := testutil.CollectAndCount(newestSnapshot); got != test.series {
			t.Fatalf("with %+v and %+v there are %d series", test.backup, test.newest, got)
		}
		if test.series > 0 && testutil.ToFloat64(newestSnapshot) != test.want {
			t.Errorf("with %+v it is %f, want %f", test.newest, testutil.ToFloat64(newestSnapshot), test.want)
		}
	}
	f.Forget(clientKey(in.ControlPlane))
}
