package main

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/former"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/rebuild"
)

func TestDataArePutAsideOnlyIfTheyMustNotBeStarted(t *testing.T) {
	const peer, request, old = "https://10.0.0.1:2380", "2026-03-04T05:06:07Z", "00a1b2c3d4e5f607"
	founded := rebuild.ClusterID(peer, request)
	begins := func(restore string) instruction {
		return instruction{former: []string{old}, begins: true, seed: backup.Seed{Member: "one-0", PeerURL: peer, Restore: restore}}
	}
	for name, test := range map[string]struct {
		said  instruction
		found facts.Facts
		want  string
		holds bool
	}{
		"nothing was said":                              {instruction{}, facts.Facts{State: facts.Present, ClusterID: old, Term: 2}, "", false},
		"data of a former cluster":                      {instruction{former: []string{"1", old}}, facts.Facts{State: facts.Present, ClusterID: old, Term: 2}, old, false},
		"etcd leaves out zeros":                         {instruction{former: []string{old}}, facts.Facts{State: facts.Present, ClusterID: "a1b2c3d4e5f607", Term: 2}, old, false},
		"data of another cluster":                       {instruction{former: []string{old}}, facts.Facts{State: facts.Present, ClusterID: "2", Term: 2}, "", false},
		"former data without room":                      {instruction{former: []string{old}}, facts.Facts{State: facts.NoSpace, ClusterID: old, Term: 2}, old, false},
		"former data that are damaged":                  {instruction{former: []string{old}}, facts.Facts{State: facts.Unreadable, Reason: facts.LogDamaged, ClusterID: old}, old, false},
		"damaged data of nobody knows what":             {instruction{former: []string{old}}, facts.Facts{State: facts.Unreadable, Reason: facts.LogDamaged}, "", false},
		"the same where a restore in place begins":      {begins(request), facts.Facts{State: facts.Unreadable, Reason: facts.LogDamaged}, former.Unreadable, false},
		"the same where a new control plane begins":     {begins(""), facts.Facts{State: facts.Unreadable, Reason: facts.LogDamaged}, "", false},
		"damaged data of the new cluster":               {begins(request), facts.Facts{State: facts.Unreadable, Reason: facts.LogDamaged, ClusterID: founded}, "", false},
		"data of the new cluster":                       {begins(request), facts.Facts{State: facts.Present, ClusterID: founded, Term: 2, Revision: 7}, "", false},
		"data of a later cluster":                       {begins(request), facts.Facts{State: facts.Present, ClusterID: "7", Term: 2, Revision: 7}, "", false},
		"data that another program has open":            {begins(request), facts.Facts{State: facts.Unreadable, Reason: facts.InUse}, "", true},
		"former data that another program has open":     {begins(request), facts.Facts{State: facts.Unreadable, Reason: facts.InUse, ClusterID: old}, "", true},
		"a disk that fails, of nobody knows what":       {begins(request), facts.Facts{State: facts.Unreadable, Reason: facts.DiskFails}, "", true},
		"a disk that fails, of a former cluster":        {begins(request), facts.Facts{State: facts.Unreadable, Reason: facts.DiskFails, ClusterID: old}, old, false},
		"the same, and nothing was said":                {instruction{}, facts.Facts{State: facts.Unreadable, Reason: facts.InUse}, "", false},
		"the same of a cluster that is no former one":   {instruction{former: []string{old}}, facts.Facts{State: facts.Unreadable, Reason: facts.InUse, ClusterID: "7"}, "", false},
		"an etcd that never had a leader":               {begins(request), facts.Facts{State: facts.Present, ClusterID: "7", Term: 1, Index: 3, Revision: 1}, former.WithoutData, false},
		"the same where a new control plane begins ":    {begins(""), facts.Facts{State: facts.Present, ClusterID: "7", Term: 1, Index: 3, Revision: 1}, "", false},
		"a restored etcd that was never started":        {begins(request), facts.Facts{State: facts.Present, ClusterID: "7", Term: 1, Index: 1, Revision: 1_000_000_009}, "", false},
		"files without data":                            {begins(""), facts.Facts{State: facts.Empty}, former.WithoutData, false},
		"files without data of a member that goes on":   {instruction{former: []string{old}}, facts.Facts{State: facts.Empty}, "", false},
		"files without data where there is little room": {begins(request), facts.Facts{State: facts.NoSpace}, "", false},
	} {
		holds := test.said.mayBeFormer(test.found)
		if holds != test.holds {
			t.Errorf("%s: it holds etcd: %v", name, holds)
		}
		if got := test.said.asideAs(test.found, true); !holds && got != test.want {
			t.Errorf("%s: it is put aside as %q", name, got)
		}
		if got := test.said.asideAs(test.found, false); got != "" {
			t.Errorf("%s: nothing is put aside as %q", name, got)
		}
	}
}
