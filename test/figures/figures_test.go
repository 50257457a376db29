package figures

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

func TestAStepReadsWhatItWroteLast(t *testing.T) {
	t.Chdir(t.TempDir())
	if all, err := Read("upgrade"); err != nil || len(all) != 0 {
		t.Errorf("before it wrote there are %v, %v", all, err)
	}
	want := []Figure{New("upgrade_seconds", "83.20", "s to v1.36.3"), New("upgrade_lost_writes", 0, "writes")}
	for _, all := range [][]Figure{{New("old", 1, "s")}, want} {
		if err := Write("upgrade", all); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read("upgrade")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if line := got[0].String(); line != "figure upgrade_seconds 83.20 s to v1.36.3" {
		t.Error(line)
	}
	for range 2 {
		if err := Forget("upgrade"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(file("upgrade")); !os.IsNotExist(err) {
		t.Errorf("they are not forgotten: %v", err)
	}
}

func TestAFigureThatIsNoNumberIsNotWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := Write("upgrade", []Figure{New("upgrade_seconds", "long", "s")}); err == nil {
		t.Error("it is")
	}
}

func TestFiguresOfAReportNameTheirSpec(t *testing.T) {
	entry := func(name string, value any) types.ReportEntry {
		return types.ReportEntry{Name: name, Value: types.WrapEntryValue(value)}
	}
	report := types.Report{SpecReports: types.SpecReports{
		{LeafNodeText: "to v1.36.3", ContainerHierarchyTexts: []string{"An upgrade"}, LeafNodeType: types.NodeTypeIt, ReportEntries: types.ReportEntries{
			entry("note", "anything"), entry(Entry, New("upgrade_seconds", "83.20", "s")),
		}},
	}}
	want := New("upgrade_seconds", "83.20", "s")
	want.Scenario = "An upgrade to v1.36.3"
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var read types.Report
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]types.Report{"of this process": report, "read from JSON": read} {
		t.Run(name, func(t *testing.T) {
			got, err := OfReport(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Figure{want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
