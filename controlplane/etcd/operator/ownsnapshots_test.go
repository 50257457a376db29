package operator

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdcomponent "github.com/kube-on-kube/cluster-api-provider-kok/controlplane/components/etcd"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/names"
)

// ownSnapshots gives each member a volume for snapshots, on its host node.
func (e *losingEtcd) ownSnapshots() {
	e.set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{
		{ObjectMeta: metav1.ObjectMeta{Name: names.DataVolume}}, {ObjectMeta: metav1.ObjectMeta{Name: names.SnapshotsVolume}},
	}
	for i := range e.pods {
		member := e.pods[i].Name
		claim := *e.claims[i].DeepCopy()
		claim.Name, claim.UID = etcdcomponent.SnapshotsClaim(member), types.UID("snapshots-of-"+member)
		claim.Spec.VolumeName = "snapshots-" + member
		volume := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
		volume.Spec.NodeAffinity = e.volumes[i].Spec.NodeAffinity.DeepCopy()
		e.claims, e.volumes = append(e.claims, claim), append(e.volumes, volume)
	}
}

// A member that is replaced begins with blank volumes: that with its snapshots may tie it to a host node that it cannot stay on.
func TestAReplacementDeletesBothVolumesOfAMember(t *testing.T) {
	e := newLosingEtcd()
	e.removed(t)
	e.ownSnapshots()
	c := e.cluster(t)
	c.SnapshotKeepers = []string{"blue-etcd-data-2"}
	if acted, _ := c.recoverMembers(t.Context(), &Report{Health: e.health}); !acted {
		t.Error("nothing is done")
	}
	if want := "delete PersistentVolumeClaim kok-own-snapshots-blue-etcd-data-1, delete PersistentVolumeClaim kok-data-blue-etcd-data-1"; strings.Join(e.writes, ", ") != want {
		t.Errorf("it writes %q", e.writes)
	}
}

// What only one member keeps is lost with its volume.
func TestTheLastVerifiedSnapshotsAreKept(t *testing.T) {
	ofThird, snapshotsOf1 := []string{"blue-etcd-data-2"}, func(e *losingEtcd) *corev1.PersistentVolumeClaim { return &e.claims[4] }
	alone := []string{"blue-etcd-data-1"}
	for name, test := range map[string]struct {
		keepers []string
		is      func(e *losingEtcd)
		kept    bool
	}{
		"nobody is known to have one": {kept: true},
		"nobody is known to have one, and the claim ties it to a host node that takes no pods": {is: func(e *losingEtcd) { e.nodes[1].Spec.Unschedulable = true }},
		"it alone has one, and its host node takes no pods":                                    {keepers: alone, is: func(e *losingEtcd) { e.nodes[1].Spec.Unschedulable = true }, kept: true},
		"another member has one, too":                                                          {keepers: append(slices.Clone(alone), ofThird...)},
		"another member alone has one":                                                         {keepers: ofThird},
		"it alone has one":                                                                     {keepers: alone, kept: true},
		"it alone has one, on network storage":                                                 {keepers: alone, is: func(e *losingEtcd) { e.volumes[4].Spec.NodeAffinity, e.nodes = nil, slices.Delete(e.nodes, 1, 2) }, kept: true},
		"the volume is gone":                                                                   {keepers: alone, is: func(e *losingEtcd) { e.volumes = slices.Delete(e.volumes, 4, 5) }},
		"the claim has lost its volume":                                                        {keepers: alone, is: func(e *losingEtcd) { snapshotsOf1(e).Status.Phase = corev1.ClaimLost }},
		"its host node is gone":                                                                {keepers: alone, is: func(e *losingEtcd) { e.nodes = slices.Delete(e.nodes, 1, 2) }},
		"somebody deleted the claim":                                                           {keepers: alone, is: func(e *losingEtcd) { terminating(snapshotsOf1(e)) }},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.removed(t)
			e.ownSnapshots()
			e.claims[4].Status.Phase = corev1.ClaimBound
			if test.is != nil {
				test.is(e)
			}
			c := e.cluster(t)
			c.SnapshotKeepers = test.keepers
			report := &Report{Health: e.health}
			c.recoverMembers(t.Context(), report)
			deletes := slices.Contains(e.writes, "delete PersistentVolumeClaim kok-own-snapshots-blue-etcd-data-1")
			says := strings.Contains(report.Recovery, "kok-own-snapshots-blue-etcd-data-1 is kept")
			if !slices.Contains(e.writes, "delete PersistentVolumeClaim kok-data-blue-etcd-data-1") || deletes == test.kept || says != test.kept {
				t.Errorf("it writes %q, and says %q", e.writes, report.Recovery)
			}
		})
	}
}

// A pod waits for its volume for snapshots as it does for that of its data.
func TestAVolumeForSnapshotsCountsAsOneOfTheMembersVolumes(t *testing.T) {
	snapshotsOf1 := func(e *losingEtcd) *corev1.PersistentVolumeClaim { return &e.claims[4] }
	for name, test := range map[string]struct {
		is         func(e *losingEtcd)
		tied, lost bool
		host       string
	}{
		"both are there":                   {is: func(*losingEtcd) {}, tied: true, host: "n1"},
		"that for snapshots is lost":       {is: func(e *losingEtcd) { snapshotsOf1(e).Status.Phase = corev1.ClaimLost }, tied: true, lost: true, host: "n1"},
		"that for snapshots alone is tied": {is: func(e *losingEtcd) { e.volumes[1].Spec.NodeAffinity = nil }, tied: true, host: "n1"},
		"that of its data alone is tied":   {is: func(e *losingEtcd) { e.volumes[4].Spec.NodeAffinity = nil }, tied: true, host: "n1"},
		"neither is tied":                  {is: func(e *losingEtcd) { e.volumes[1].Spec.NodeAffinity, e.volumes[4].Spec.NodeAffinity = nil, nil }},
		"the claim for snapshots has no volume": {is: func(e *losingEtcd) {
			snapshotsOf1(e).Spec.VolumeName, snapshotsOf1(e).Status.Phase = "", corev1.ClaimPending
		}, tied: true, host: "n1"},
		"the volume for snapshots is there no more": {is: func(e *losingEtcd) { e.volumes = slices.Delete(e.volumes, 4, 5) }, tied: true, lost: true, host: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLosingEtcd()
			e.ownSnapshots()
			test.is(e)
			e.pods = slices.Delete(e.pods, 1, 2)
			m, err := e.second(t)
			if err != nil || m.Claim.Tied != test.tied || m.Claim.Lost != test.lost || m.Host.Name != test.host || m.Claim.UID != "claim-of-blue-etcd-data-1" {
				t.Errorf("it is %+v on %+v: %v", m.Claim, m.Host, err)
			}
		})
	}
}

// Claims for snapshots are nobody's data.
func TestClaimsForSnapshotsAreNotTakenForData(t *testing.T) {
	e := newLosingEtcd()
	e.ownSnapshots()
	c := e.cluster(t)
	tenant := client.ObjectKey{Namespace: "team", Name: "blue"}
	data, snapshots, err := AllVolumeClaims(t.Context(), e.host, tenant, names.EtcdData)
	if err != nil || len(data) != 3 || len(snapshots) != 3 || names.HoldsSnapshots(data[0].Name) || !names.HoldsSnapshots(snapshots[0].Name) {
		t.Errorf("%d have data, and %d snapshots: %v", len(data), len(snapshots), err)
	}
	if hosts, err := HostsOfVolumes(t.Context(), e.host, tenant, names.EtcdData, nil); err != nil || len(hosts) != 3 {
		t.Errorf("they are on %v: %v", hosts, err)
	}
	found, err := c.belongings(t.Context())
	if err != nil || len(found.claims) != 3 || len(found.snapshots) != 3 || found.snapshots["blue-etcd-data-1"] == nil {
		t.Errorf("belongings are %+v: %v", found, err)
	}
}

// expectLeaves fails the test unless the last member can be removed with both of its volumes.
func (e *losingEtcd) expectLeaves(t *testing.T, c *cluster) {
	t.Helper()
	claims, err := c.claims(t.Context())
	if err != nil || len(claims) != 3 {
		t.Fatalf("members have %v: %v", claims, err)
	}
	if _, err := c.deleteClaim(t.Context(), "blue-etcd-data-2", claims[2]); err != nil {
		t.Fatal(err)
	}
	if want := "delete PersistentVolumeClaim kok-own-snapshots-blue-etcd-data-2, delete PersistentVolumeClaim kok-data-blue-etcd-data-2"; strings.Join(e.writes, ", ") != want {
		t.Errorf("it writes %q", e.writes)
	}
}

// With a member that is removed its snapshots go, and those of others stay.
func TestARemovedMemberLeavesNoSnapshots(t *testing.T) {
	e := newLosingEtcd()
	e.ownSnapshots()
	c := e.cluster(t)
	e.expectLeaves(t, c)
}

// Whoever copies objects, or keeps them in Git, may take labels away. A pod uses its claims by their names.
func TestClaimsWithoutLabelsAreKnownByTheirNames(t *testing.T) {
	e := newLosingEtcd()
	e.ownSnapshots()
	for i := range e.claims {
		e.claims[i].Labels = nil
	}
	c := e.cluster(t)
	found, err := c.belongings(t.Context())
	if err != nil || len(found.claims) != 3 || len(found.snapshots) != 3 {
		t.Errorf("belongings are %d volumes with data and %d with snapshots: %v", len(found.claims), len(found.snapshots), err)
	}
	e.expectLeaves(t, c)
}

// A member that does not answer for another reason would else count as one without a volume.
func TestAMemberWhoseClaimLostItsLabelsIsNotReplaced(t *testing.T) {
	e := newLosingEtcd()
	e.down(1)
	e.claims[1].Labels = nil
	report := &Report{Health: e.health}
	if acted, _ := e.cluster(t).recoverMembers(t.Context(), report); acted || len(e.writes) > 0 {
		t.Errorf("it writes %q, and says %q", e.writes, report.Recovery)
	}
}
