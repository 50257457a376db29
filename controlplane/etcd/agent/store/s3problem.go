package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// code is the one by which the server says what is wrong; empty if it said nothing.
func code(err error) string {
	var said smithy.APIError
	if errors.As(err, &said) {
		return said.ErrorCode()
	}
	return ""
}

// notImplemented reports that a server does not know conditions.
func notImplemented(err error) bool {
	return code(err) == "NotImplemented" || status(err) == http.StatusNotImplemented
}

func status(err error) int {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// problem says which field is wrong.
func (s *S3) problem(what string, err error) error {
	var known *Problem
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %w", what, known)
	}
	// The message of the S3 API is enough: the rest of the error is about our request.
	var said smithy.APIError
	cause := err
	if errors.As(err, &said) && said.ErrorMessage() != "" {
		cause = fmt.Errorf("%s: %.500s", said.ErrorCode(), said.ErrorMessage())
	}
	wrong := func(field, format string, args ...any) error {
		return fmt.Errorf("%s: %w", what, &Problem{Field: field, Message: fmt.Sprintf(format, args...), Err: cause})
	}
	switch code(err) {
	case "NoSuchBucket":
		return wrong(fieldBucket, "there is no bucket %s on %s: make it, or name another one", s.config.Bucket, s.config.Endpoint)
	case "InvalidBucketName":
		return wrong(fieldBucket, "the server takes no bucket of this name: name another one")
	case "InvalidAccessKeyId", "XAdminUserNotFound", "InvalidToken", "ExpiredToken", "TokenRefreshRequired":
		return wrong(fieldCredentials, "the server does not know the accessKeyID of the Secret, or no longer: put the right one there")
	case "SignatureDoesNotMatch":
		return wrong(fieldCredentials, "the secretAccessKey of the Secret is not the one of its accessKeyID: put the right one there")
	case "AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden", "MethodNotAllowed":
		return wrong(fieldCredentials, "the key of the Secret may not do this: allow it to put, get, list and delete objects under %s", s.url(""))
	case "RequestTimeTooSkewed":
		return wrong(fieldEndpoint, "the clock of this host node%s and that of the server differ too much: set both by NTP", difference(err))
	case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "InvalidRegion", "IncorrectEndpoint":
		return wrong(fieldRegion, "the bucket is not in the region %s, or not on this server: name the one that it is in", s.client.Options().Region)
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage", "ServiceQuotaExceeded":
		return wrong(fieldBucket, "it is full: give it more room, or keep fewer snapshots (spec.etcd.backup.keep)")
	}
	return s.unreached(err, wrong)
}

// unreached is about servers that gave no answer of S3.
func (s *S3) unreached(err error, wrong func(field, format string, args ...any) error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var noTLS tls.RecordHeaderError
	code := status(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return wrong(fieldEndpoint, "the request timed out: look whether %s can be reached from host nodes", s.config.Endpoint)
	case errors.As(err, &authority):
		return wrong(fieldCA, "the certificate of the server is of no CA that is trusted: put the one that signed it there")
	case errors.As(err, &host):
		return wrong(fieldEndpoint, "the certificate of the server is not for this name: name the server as its certificate does")
	case errors.As(err, &invalid):
		return wrong(fieldEndpoint, "the certificate of the server is not valid: renew it, and look at the clock of this host node, which says %s", time.Now().UTC().Format(time.RFC3339))
	case errors.As(err, &noTLS), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return wrong(fieldEndpoint, "the server does not speak TLS: begin with http://, or name another port")
	case strings.Contains(err.Error(), "malformed HTTP response"), code == http.StatusBadRequest && strings.HasPrefix(s.config.Endpoint, "http://"):
		return wrong(fieldEndpoint, "the server speaks TLS, or is no S3 server: begin with https://, or look at the address")
	case code == http.StatusForbidden, code == http.StatusUnauthorized:
		return wrong(fieldCredentials, "the key of the Secret may not do this: allow it to put, get, list and delete objects under %s", s.url(""))
	case code == http.StatusInsufficientStorage:
		return wrong(fieldBucket, "it is full: give it more room, or keep fewer snapshots (spec.etcd.backup.keep)")
	case code >= 300 && code < 400:
		return wrong(fieldEndpoint, "the server redirects to another one: name the server that has the bucket")
	case code == http.StatusBadRequest, code == http.StatusNotFound:
		return wrong(fieldEndpoint, "this is no S3 server, or it takes its buckets by other names: look at the address")
	}
	return wrong(fieldEndpoint, "the server cannot be reached, or fails: look whether %s can be reached from host nodes", s.config.Endpoint)
}

// difference is how far the clock of the server is ahead, by the date of its answer.
func difference(err error) string {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) || answer.Response == nil {
		return ""
	}
	date, err := http.ParseTime(answer.Response.Header.Get("Date"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (%s, and the server says %s)", time.Now().UTC().Format(time.RFC3339), date.UTC().Format(time.RFC3339))
}
