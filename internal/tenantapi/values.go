package tenantapi

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// maxValues is the most objects and lists of JSON within one answer, or within one event of a watch. An object of two bytes may
// take a kilobyte of memory when it is decoded, so a bound on bytes is not enough. Both requests for certificates of each of 5,000
// nodes that joined within an hour have less.
const maxValues = 600_000

var tooManyValues = fmt.Sprintf("its answer has more than %d objects and lists", maxValues)

// values counts the objects and lists of JSON in a stream, anew for each value that is not inside another one.
type values struct {
	depth, count      int
	inString, escaped bool
}

// tooMany goes on with the next bytes of the stream, and reports whether there are more than maxValues.
func (v *values) tooMany(next []byte) bool {
	for _, b := range next {
		switch {
		case v.escaped:
			v.escaped = false
		case v.inString:
			v.escaped, v.inString = b == '\\', b != '"'
		case b == '"':
			v.inString = true
		case b == '{' || b == '[':
			if v.depth == 0 {
				v.count = 0
			}
			v.depth++
			if v.count++; v.count > maxValues {
				return true
			}
		case b == '}' || b == ']':
			v.depth = max(0, v.depth-1)
		}
	}
	return false
}

// onlyJSON takes other encodings of objects from what a request accepts: how much memory they take when they are decoded is not known.
func onlyJSON(request *http.Request) *http.Request {
	var accepted []string
	for _, line := range request.Header.Values("Accept") {
		for kind := range strings.SplitSeq(line, ",") {
			if kind = strings.TrimSpace(kind); kind != "" && isAskedFor(kind) {
				accepted = append(accepted, kind)
			}
		}
	}
	if len(accepted) == 0 {
		accepted = []string{"application/json"}
	}
	request = request.Clone(request.Context())
	request.Header.Set("Accept", strings.Join(accepted, ","))
	return request
}

// isAskedFor reports whether an answer may have a media type: objects are JSON, /healthz and /metrics are text.
func isAskedFor(kind string) bool {
	kind, _, err := mime.ParseMediaType(kind)
	return err == nil && (kind == "application/json" || kind == "text/plain" || kind == "*/*")
}
