package cloudinit

import (
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// cloud-init lets user data from elsewhere take the place of the seed's, unless it is told that there is no elsewhere.
func TestCloudInitReadsTheSeedAlone(t *testing.T) {
	config := struct {
		Sources []string                  `json:"datasource_list"`
		Source  map[string]map[string]any `json:"datasource"`
	}{}
	if err := yaml.UnmarshalStrict(configContent, &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(configContent, &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Sources, []string{"NoCloud"}) {
		t.Errorf("the data sources are %q", config.Sources)
	}
	for _, elsewhere := range []string{"fs_label", "seedfrom"} {
		if value, said := config.Source["NoCloud"][elsewhere]; !said || value != nil {
			t.Errorf("%s is %v", elsewhere, value)
		}
	}
}
