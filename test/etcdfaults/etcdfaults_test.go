package etcdfaults

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/registers"
)

const label = "etcd_faults"

func spec(text string, state types.SpecState, labels []string, entries ...types.ReportEntry) types.SpecReport {
	s := types.SpecReport{LeafNodeText: text, LeafNodeType: types.NodeTypeIt, State: state, LeafNodeLabels: labels, ReportEntries: entries}
	if state == types.SpecStateFailed {
		s.Failure.Message = "it is\nnot healthy"
	}
	return s
}

func entry(value any) types.ReportEntry {
	return types.ReportEntry{Name: Entry, Value: types.WrapEntryValue(value)}
}

func TestEverySpecOfTheLabelThatRanHasARow(t *testing.T) {
	wiped := Row{
		Fault: "wiped", Did: "wiped blue-etcd-data-1", Still: time.Second, Healthy: time.Minute, Replaced: 1, Recovery: time.Minute,
		Compared: 4000, Linearizable: registers.Yes, Restarted: 1,
	}
	report := types.Report{SpecReports: types.SpecReports{
		spec("a volume is wiped", types.SpecStatePassed, []string{"full", label}, types.ReportEntry{Name: "figure", Value: types.WrapEntryValue(1)}, entry(wiped)),
		spec("a host node is gone", types.SpecStateFailed, []string{label}),
		spec("a member is killed", types.SpecStateSkipped, []string{label}),
		spec("a soak", types.SpecStateFailed, []string{label}, entry(Row{Fault: "split"}), entry(Row{Fault: "killed"})),
		spec("another spec", types.SpecStatePassed, []string{"full"}),
	}}
	wiped.Passed = true
	want := []Row{wiped, {Fault: "a host node is gone", Note: "it is\nnot healthy"}, {Fault: "split", Passed: true}, {Fault: "killed", Note: "it is\nnot healthy"}}
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
			got, err := OfReport(r, label)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var rows = []Row{
	{Fault: "wiped", Did: "wiped the volume", Still: 1500 * time.Millisecond, Healthy: time.Minute, Replaced: 1, Recovery: time.Minute, Compared: 4000, Linearizable: registers.Yes, Passed: true},
	{Fault: "drained", Did: "drained idc-4", Still: time.Second, Healthy: 11 * time.Minute, Replaced: 2, Recovery: 90 * time.Second, Compared: 1000, Lost: 3, Linearizable: registers.No, Restarted: 2, Note: "writes\nare lost"},
	{Fault: "killed", Passed: false},
}

func TestTheTableSaysWhatCameOfEachFault(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for line := range strings.Lines(b.String()) {
		var cells []string
		for cell := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		lines = append(lines, cells)
	}
	want := [][]string{
		{"FAULT", "OUTCOME", "WRITES STOOD STILL", "HEALTHY AFTER", "REPLACED", "LOST WRITES", "LINEARIZABLE", "RESTARTED PODS", "WHAT WAS DONE"},
		{"wiped", "passed", "1.5 s", "60.0 s", "1", "0 of 4000", "yes", "0", "wiped the volume"},
		{"drained", "FAILED (writes are lost)", "1.0 s", "660.0 s", "2", "3 of 1000", "no", "2", "drained idc-4"},
		{"killed", "FAILED", "-", "-", "0", "not compared", "not judged", "0"},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func TestFiguresAreOfAllFaultsTogether(t *testing.T) {
	want := []figures.Figure{
		figures.New("faults_total", 3, "faults"),
		figures.New("faults_passed", 1, "faults"),
		figures.New("faults_lost_writes", 3, "writes of 5000 that were compared"),
		figures.New("faults_not_linearizable", 1, "faults; 1 were linearizable and 1 not judged"),
		figures.New("recovery_seconds_member", "90.0", "s, the longest of 3 members"),
	}
	if diff := cmp.Diff(want, Figures(rows)); diff != "" {
		t.Error(diff)
	}
	if got := Figures(nil); len(got) > 0 {
		t.Errorf("without faults there are %v", got)
	}
	if got := Figures(rows[2:]); len(got) != 4 {
		t.Errorf("where no member was replaced there are %v", got)
	}
}
