// Package audit reads the audit log of the host cluster's API server: who wrote what, and when.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Log is an audit log that is being written, one JSON event a line.
type Log struct {
	path   string
	offset int64
	// identity of the file that offset belongs to; the API server rotates it.
	file os.FileInfo
}

// Open gives the log from its present end on.
func Open(path string) (*Log, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the host cluster's audit log: %w", err)
	}
	return &Log{path: path, offset: info.Size(), file: info}, nil
}

// Next gives the events that were logged since the last call. A line that is not whole yet is left for
// the next call. When the log was rotated meanwhile, events may be missing: that is an error.
func (l *Log) Next() ([]auditv1.Event, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, l.file) || info.Size() < l.offset {
		l.file, l.offset = info, 0
		return nil, errors.New("the audit log was rotated while it was read: events are missing")
	}
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, err
	}
	var events []auditv1.Event
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		l.offset += int64(len(line))
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w in %q", err, line)
		}
		events = append(events, event)
	}
}

// writeVerbs change what the API server stores.
var writeVerbs = map[string]bool{"create": true, "update": true, "patch": true, "delete": true, "deletecollection": true}

// IsWrite reports whether an event stands for a write that was accepted. Reviews are created and never
// stored.
func IsWrite(event *auditv1.Event) bool {
	if !writeVerbs[event.Verb] || event.ObjectRef == nil || event.ResponseStatus == nil || event.ResponseStatus.Code >= 300 {
		return false
	}
	if strings.HasSuffix(event.ObjectRef.Resource, "reviews") && strings.HasSuffix(event.ObjectRef.APIGroup, ".k8s.io") {
		return false
	}
	return event.Stage == auditv1.StageResponseComplete && !strings.Contains(event.RequestURI, "dryRun=")
}

// Describe says an event in one line.
func Describe(event *auditv1.Event) string {
	object := event.ObjectRef
	resource := object.Resource
	if object.APIGroup != "" {
		resource += "." + object.APIGroup
	}
	if object.Subresource != "" {
		resource += "/" + object.Subresource
	}
	return fmt.Sprintf("%s %s %s %s/%s by %s (%s)", event.StageTimestamp.UTC().Format("15:04:05.000"), event.Verb, resource,
		object.Namespace, object.Name, event.User.Username, event.UserAgent)
}
