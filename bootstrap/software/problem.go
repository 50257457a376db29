package software

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Problem is an error with the Result of a run.
type Problem struct {
	Reason    Reason
	Component string
	Err       error
}

// Problemf makes a Problem of a component, or of none.
func Problemf(reason Reason, component, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Component: component, Err: fmt.Errorf(format, args...)}
}

// OfComponent adds the component to an error, unless the error has one.
func OfComponent(name string, err error) error {
	if err == nil {
		return nil
	}
	if problem := (*Problem)(nil); errors.As(err, &problem) {
		if problem.Component == "" {
			problem.Component = name
		}
		return err
	}
	return &Problem{Reason: NotInstalled, Component: name, Err: err}
}

func (p *Problem) Error() string {
	if p.Component == "" {
		return p.Err.Error()
	}
	return "component " + p.Component + ": " + p.Err.Error()
}

func (p *Problem) Unwrap() error { return p.Err }

// maxMessage bounds the message of a Result, which becomes the message of a condition.
const maxMessage = 4096

// ResultOf is the Result of a run that ended with an error, or with none.
func ResultOf(err error) Result {
	if err == nil {
		return Result{}
	}
	result := Result{Reason: NotInstalled, Message: err.Error()}
	if problem := (*Problem)(nil); errors.As(err, &problem) {
		result.Reason, result.Component = problem.Reason, problem.Component
	}
	if prefix := "component " + result.Component + ": "; result.Component != "" && !strings.Contains(result.Message, prefix) {
		result.Message = prefix + result.Message
	}
	result.Message = errortext.Short(strings.ReplaceAll(WithoutSecrets(result.Message), "\n", "; "), maxMessage)
	return result
}

var (
	urls        = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	credentials = regexp.MustCompile(`[^\s"'/]+:[^\s"'/]*@`)
)

// WithoutSecrets removes user, password and query from URLs in a text.
func WithoutSecrets(text string) string {
	text = urls.ReplaceAllStringFunc(text, func(found string) string {
		scheme, rest, _ := strings.Cut(found, "://")
		authority, path, slash := strings.Cut(rest, "/")
		if i := strings.IndexAny(authority, "?#"); i >= 0 {
			authority, path, slash = authority[:i], "", false
		}
		authority = authority[strings.LastIndex(authority, "@")+1:]
		shown := scheme + "://" + authority
		if slash {
			shown += "/" + path
		}
		colon := ""
		if strings.HasSuffix(found, ":") {
			colon = ":"
		}
		if i := strings.IndexAny(shown, "?#"); i >= 0 {
			shown = shown[:i] + colon
		}
		return shown
	})
	return credentials.ReplaceAllString(text, "")
}
