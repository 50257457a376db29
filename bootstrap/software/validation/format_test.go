package validation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/version"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/golden"
)

func TestADocumentOfANewerFormatIsRefusedWithTheWayOut(t *testing.T) {
	for name, test := range map[string]struct {
		format int
		more   string
		want   []string
	}{
		"before there were formats": {format: 0},
		"the newest that is known":  {format: software.Format},
		"a newer one, whose fields nobody here knows": {format: software.Format + 1, more: `"drivers": [],`, want: []string{
			"kok-software " + version.Get().GitVersion, fmt.Sprintf("up to format %d", software.Format), fmt.Sprintf("has format %d", software.Format+1), "kok software add",
		}},
		"none that there can be":            {format: -1, want: []string{"has format -1"}},
		"a known one with an unknown field": {format: software.Format, more: `"drivers": [],`, want: []string{`unknown field "drivers"`}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(valid())
			if err != nil {
				t.Fatal(err)
			}
			content := strings.Replace(string(text), "{", fmt.Sprintf(`{"formatVersion": %d, %s`, test.format, test.more), 1)
			_, err = Parse([]byte(content))
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("got %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
		})
	}
}

// Older programs refuse a document with a new field. Who adds a field raises software.Format, and documents that use the field
// name the new format.
func TestTheFieldsOfAFormatStayThose(t *testing.T) {
	fields := map[string]bool{}
	collect(reflect.TypeFor[software.Document](), "", fields)
	golden.Compare(t, fmt.Sprintf("format-%d.txt", software.Format), []byte(strings.Join(slices.Sorted(maps.Keys(fields)), "\n")+"\n"))
}

// collect finds the paths of all fields in JSON.
func collect(of reflect.Type, path string, fields map[string]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		fields[path+name] = true
		collect(of.Field(i).Type, path+name+".", fields)
	}
}
