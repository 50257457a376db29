package backup

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Fields of an S3 store that CheckS3 judges.
const (
	FieldEndpoint = "s3.endpoint"
	FieldBucket   = "s3.bucket"
	FieldPrefix   = "s3.prefix"
)

// maxPrefix leaves room for the rest of a name, which S3 bounds at 1024 bytes.
const maxPrefix = 512

var (
	buckets  = regexp.MustCompile(`^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$`)
	prefixes = regexp.MustCompile(`^[0-9A-Za-z][-._0-9A-Za-z]*(/[0-9A-Za-z][-._0-9A-Za-z]*)*/?$`)
)

// Invalid is what is wrong with a field of a store.
type Invalid struct{ Field, Message string }

// CheckS3 says what is wrong with a bucket, as far as that is known without its server. No message has a password.
func CheckS3(s S3) []Invalid {
	var all []Invalid
	if message := checkEndpoint(s.Endpoint); message != "" {
		all = append(all, Invalid{FieldEndpoint, message})
	}
	if !buckets.MatchString(s.Bucket) {
		all = append(all, Invalid{FieldBucket, fmt.Sprintf("%.80q is no name of a bucket: it must be of the form %s", s.Bucket, buckets)})
	}
	if s.Prefix != "" && (!prefixes.MatchString(s.Prefix) || len(s.Prefix) > maxPrefix) {
		all = append(all, Invalid{FieldPrefix, fmt.Sprintf("%.600q is no prefix: it must be of the form %s", s.Prefix, prefixes)})
	}
	return all
}

func checkEndpoint(endpoint string) string {
	parsed, err := url.Parse(endpoint)
	switch {
	case strings.Contains(endpoint, "@"):
		return "the address has credentials, which belong into the Secret of credentialsRef: write https://host:port"
	case err != nil, parsed.Scheme != "https" && parsed.Scheme != "http", parsed.Hostname() == "", strings.Trim(parsed.Path, "/") != "", parsed.RawQuery != "", parsed.Fragment != "":
		return fmt.Sprintf("%.200q is no address of a server: write https://host:port", endpoint)
	}
	return ""
}
