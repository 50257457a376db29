package patches

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/kube-on-kube/cluster-api-provider-kok/api/controlplane/v1alpha1"
)

// maxSize is how large an object may become, in bytes of JSON: all objects of a component are kept in one
// ControllerRevision, and etcd takes 1.5 MiB at once.
const maxSize = 256 << 10

// merge is the patched object as JSON.
func merge(patch controlplanev1.Patch, object client.Object) ([]byte, error) {
	fields, err := toFields(object)
	if err != nil {
		return nil, err
	}
	if _, ok := object.(*networkingv1.NetworkPolicy); ok {
		addIngress(fields)
	}
	original, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("read the rendered object: %w", err)
	}
	change, err := toJSON(patch.Patch)
	if err != nil {
		return nil, err
	}
	if err := checkShape(patch.Type, change); err != nil {
		return nil, err
	}
	merged, err := mergeJSON(patch.Type, original, change, object)
	if err != nil {
		return nil, fmt.Errorf("it does not apply to the rendered %s: %w", object.GetName(), err)
	}
	if len(merged) > maxSize {
		return nil, fmt.Errorf("it makes the object %d KiB large; %d KiB is the limit", len(merged)>>10, maxSize>>10)
	}
	return merged, nil
}

// addIngress adds an empty ingress list to a NetworkPolicy that lets nothing in. JSON leaves an empty list out,
// and an operation that appends needs it.
func addIngress(fields map[string]any) {
	spec := asMap(fields["spec"])
	if spec != nil && spec["ingress"] == nil {
		spec["ingress"] = []any{}
	}
}

// checkShape refuses a patch that is written in the form of the other type.
func checkShape(patchType controlplanev1.PatchType, change []byte) error {
	switch isJSONPatch := patchType == controlplanev1.PatchJSON6902; {
	case isJSONPatch && change[0] != '[':
		return errors.New("a JSON6902 patch is a list of operations; for a part of the object set type to StrategicMerge")
	case !isJSONPatch && change[0] != '{':
		return errors.New("a StrategicMerge patch is a part of the object; for a list of operations set type to JSON6902")
	}
	return nil
}

func mergeJSON(patchType controlplanev1.PatchType, original, change []byte, object client.Object) ([]byte, error) {
	if patchType != controlplanev1.PatchJSON6902 {
		return mergePart(original, change, object)
	}
	operations, err := jsonpatch.DecodePatch(change)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxSize
	return operations.ApplyWithOptions(original, options)
}

// mergePart merges a part of an object into it. The library panics where a value that tells the entries of a list apart is itself a
// list or a map. Texts of persons must not end the program, so such a part is refused.
func mergePart(original, part []byte, object client.Object) (merged []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			merged, err = nil, fmt.Errorf("%v: write each name, and whatever else tells the entries of a list apart, as one plain value", panicked)
		}
	}()
	return strategicpatch.StrategicMergePatch(original, part, object)
}

// toJSON reads one document of YAML, which JSON is too.
func toJSON(text string) ([]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var found []byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it cannot be read: %w", err)
		}
		raw, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
		}
		if string(raw) == "null" {
			continue
		}
		if found != nil {
			return nil, errors.New("it has several YAML documents; write one patch for each")
		}
		found = raw
	}
	if found == nil {
		return nil, errors.New("it is empty; remove it from the list")
	}
	return found, nil
}

// toFields is an object without its status, which nothing renders.
func toFields(object client.Object) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("read the rendered object: %w", err)
	}
	fields, err := readFields(raw)
	delete(fields, "status")
	return fields, err
}

func readFields(raw []byte) (map[string]any, error) {
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("it makes no object: %w", err)
	}
	return fields, nil
}

var strict = serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// decode reads a patched object and refuses what its kind does not know.
func decode(raw []byte) (client.Object, error) {
	object, _, err := strict.Decode(raw, nil, nil)
	if err != nil {
		if unknown, ok := runtime.AsStrictDecodingError(err); ok {
			err = errors.Join(unknown.Errors()...)
		}
		return nil, fmt.Errorf("it makes no valid object: %s", strings.ReplaceAll(err.Error(), "\n", ", "))
	}
	return object.(client.Object), nil
}
