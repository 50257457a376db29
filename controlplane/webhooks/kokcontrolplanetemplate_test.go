package webhooks

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// Nothing would judge what a template has and specOf leaves out.
func TestEveryFieldOfATemplateIsJudged(t *testing.T) {
	template := controlplanev1.KOKControlPlaneTemplateResourceSpec{}
	fill(reflect.ValueOf(&template).Elem())
	want, got := fields(t, template), fields(t, specOf(template))
	if len(want) < 10 {
		t.Fatalf("only %d fields of a template were filled", len(want))
	}
	// What is no field of a template is unset, and rendered as empty at most.
	if diff := cmp.Diff(want, common(want, got)); diff != "" {
		t.Errorf("a template (-) and what is judged of it (+) differ:\n%s", diff)
	}
}

// fill sets every field that it can.
func fill(value reflect.Value) {
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Field(i).CanSet() {
				fill(value.Field(i))
			}
		}
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(`{}`))
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(value.Index(0))
	case reflect.Map:
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(key)
		fill(element)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, element)
	case reflect.String:
		value.SetString("filled")
	case reflect.Int32, reflect.Int64:
		value.SetInt(1)
	case reflect.Bool:
		value.SetBool(true)
	}
}

func fields(t *testing.T, spec any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// common is the part of got that has the fields of want.
func common(want, got map[string]any) map[string]any {
	both := map[string]any{}
	for name, value := range want {
		found, ok := got[name]
		inner, isMap := value.(map[string]any)
		if foundMap, isMapToo := found.(map[string]any); isMap && isMapToo {
			found = common(inner, foundMap)
		}
		if ok {
			both[name] = found
		}
	}
	return both
}
