package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRulesWhoseTestPassedAreCounted(t *testing.T) {
	events := `{"Action":"start","Package":"p"}
{"Action":"run","Test":"TestInfraClusterContract"}
{"Action":"output","Test":"TestInfraClusterContract","Output":"shown\n"}
{"Action":"pass","Test":"TestInfraClusterContract/All_resources:_scope","Elapsed":0.1}
{"Action":"pass","Test":"TestInfraClusterContract/InfraCluster:_pausing/by_its_Cluster"}
{"Action":"pass","Test":"TestInfraClusterContract/InfraCluster:_pausing"}
{"Action":"fail","Test":"TestInfraClusterContract/Multi_tenancy"}
{"Action":"pass","Test":"TestOther/part"}
{"Action":"fail","Test":"TestInfraClusterContract"}
{"Action":"fail","Package":"p"}
`
	var out bytes.Buffer
	passed, err := count(strings.NewReader(events), &out, []string{"TestInfraClusterContract"})
	if err != nil || passed != 2 || out.String() != "shown\n" {
		t.Errorf("%d passed, %v, shown %q", passed, err, out.String())
	}
}
