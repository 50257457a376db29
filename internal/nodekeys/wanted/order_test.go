package wanted_test

import (
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/nodekeys/wanted"
)

func TestAnOrderGrowsWithEachStepAndEachRotation(t *testing.T) {
	grows := []wanted.Order{
		{}, {Rotation: "2030-01-02T03:04:05Z", Step: 1}, {Rotation: "2030-01-02T03:04:05Z", Step: 2}, {Rotation: "2030-01-02T03:04:05Z", Step: 10},
		{Rotation: "2030-01-02T03:04:06Z", Step: 1}, {Rotation: "2031-01-01T00:00:00Z", Step: 1},
	}
	for i, a := range grows {
		for j, b := range grows {
			if a.Before(b) != (i < j) {
				t.Errorf("%s is before %s: %t", a, b, a.Before(b))
			}
		}
		if i == 0 {
			continue
		}
		if got, err := wanted.ParseOrder(a.String() + "\n"); err != nil || got != a {
			t.Errorf("%s is read as %s, %v", a, got, err)
		}
	}
	for _, text := range []string{"", wanted.Order{}.String(), "2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z 0", "2030-01-02T03:04:05Z -1", "2030-01-02T03:04:05+01:00 1", "2030-01-02T03:04:05.5Z 1", "1 2030-01-02T03:04:05Z"} {
		if got, err := wanted.ParseOrder(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}
