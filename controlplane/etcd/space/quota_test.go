package space

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAQuotaLeavesRoomForACopy(t *testing.T) {
	of := func(text string) *resource.Quantity {
		if text == "" {
			return nil
		}
		q := resource.MustParse(text)
		return &q
	}
	for name, test := range map[string]struct{ quota, volume, says string }{
		"the defaults":            {quota: "2Gi", volume: "8Gi"},
		"just enough":             {quota: "45Gi", volume: "100Gi"},
		"one byte more":           {quota: "48318382081", volume: "100Gi", says: "set spec.etcd.data.storage.size to 103Gi, or the quota to 45Gi"},
		"most of it":              {quota: "6Gi", volume: "8Gi", says: "spec.etcd.data.quotaBackendSize, 6Gi, is more than 45 % of spec.etcd.data.storage.size, 8Gi: a database that large has no room to be written anew; set spec.etcd.data.storage.size to 14Gi, or the quota to 3686Mi"},
		"a small one":             {quota: "900Mi", volume: "1Gi", says: "storage.size to 3Gi, or the quota to 460Mi"},
		"no size":                 {quota: "6Gi"},
		"no quota":                {volume: "8Gi"},
		"a size that cannot be":   {quota: "6Gi", volume: "0"},
		"larger than any storage": {quota: "4Ei", volume: "8Ei", says: "Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			got := OverQuota(of(test.quota), of(test.volume), "spec.etcd.data")
			if (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
				t.Errorf("it says %q", got)
			}
		})
	}
}
