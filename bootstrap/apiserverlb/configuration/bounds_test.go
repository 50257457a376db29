package configuration

import (
	"strings"
	"testing"
)

func TestBoundsGoByTheDescriptors(t *testing.T) {
	for name, test := range map[string]struct {
		configuration Configuration
		descriptors   uint64
		want          Bounds
	}{
		"as the unit has them":             {Configuration{}, 65536, Bounds{Listen: 10922, Service: 10922, PerSource: 1365, Additional: 682}},
		"as a shell has them":              {Configuration{}, 1024, Bounds{Listen: 170, Service: 170, PerSource: 21, Additional: 10}},
		"without a limit":                  {Configuration{}, 1<<64 - 1, Bounds{Listen: 16384, Service: 16384, PerSource: 2048, Additional: 1024}},
		"hardly any":                       {Configuration{}, 4, Bounds{Listen: 1, Service: 1, PerSource: 1, Additional: 1}},
		"one source goes by the Service's": {Configuration{MaxServiceConnections: 80}, 65536, Bounds{Listen: 10922, Service: 80, PerSource: 10, Additional: 682}},
		"all by the configuration":         {Configuration{MaxConnections: 5, MaxServiceConnections: 6, MaxServiceConnectionsPerSource: 7}, 1024, Bounds{Listen: 5, Service: 6, PerSource: 7, Additional: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.configuration.DescriptorBounds(test.descriptors)
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, expected %+v", got, err, test.want)
			}
		})
	}
	c := Configuration{MaxServiceConnections: 40000}
	if _, err := c.DescriptorBounds(65536); err == nil || !strings.Contains(err.Error(), "raise LimitNOFILE") {
		t.Errorf("more connections than descriptors: %v", err)
	}
}
