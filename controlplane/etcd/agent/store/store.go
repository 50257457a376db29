// Package store keeps the objects of snapshots: in a directory, which is a volume of the host cluster, or in a bucket of an S3
// server.
//
// # What it promises
//
//   - An object is there whole, or not at all: an upload that was cut off is never listed, and leaves at most what the next
//     uploads clear away after a day.
//   - An object is never replaced. Of two who write one name, one is told ErrExists.
//   - What the configuration has wrong is a Problem, which names the field of spec.etcd.backup.store.
//   - Answers of a server, and names in a directory, are bounded, and nothing outside of the directory is read or written.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// Object is one that is listed.
type Object struct {
	Name     string
	Bytes    int64
	Modified time.Time
}

// Store keeps objects by their names.
type Store interface {
	// Put writes an object. It returns ErrExists if the store has an object of this name. If content gives an error, Put stores nothing.
	Put(ctx context.Context, name string, content io.Reader) error
	// Get opens an object. It returns ErrNotFound if the store has no object of this name.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List gives all objects, by name.
	List(ctx context.Context) ([]Object, error)
	// Delete deletes an object. One that is not there is no error.
	Delete(ctx context.Context, name string) error
	// Check writes a small object, lists, and deletes it.
	Check(ctx context.Context) error
}

// Errors of a store about a single object.
var (
	ErrExists   = errors.New("an object of this name is already there")
	ErrNotFound = errors.New("there is no object of this name")
)

// Problem is an error that a person can mend.
type Problem struct {
	// Field is the field of spec.etcd.backup.store that is wrong, or that names what is wrong.
	Field string
	// Message says what is wrong and what to do.
	Message string
	// Err is the cause, as the server or the kernel said it. It may be nil.
	Err error
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Err == nil {
		return p.Field + ": " + p.Message
	}
	return fmt.Sprintf("%s: %s: %v", p.Field, p.Message, p.Err)
}

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.Err }

// FieldOf is the field that an error is about; empty if it names none.
func FieldOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Field
	}
	return ""
}

// names are those of objects: no folders, and nothing that is hidden.
var names = regexp.MustCompile(`^[0-9A-Za-z][-._0-9A-Za-z]{0,127}$`)

func checkName(name string) error {
	if !names.MatchString(name) {
		return fmt.Errorf("%.140q is no name of an object: it must be of the form %s", name, names)
	}
	return nil
}

const (
	// maxObjects bounds a listing.
	maxObjects = 100_000
	// probe is the object that Check writes.
	probe = "writable"
	// stale is when what an upload left is cleared away.
	stale = 24 * time.Hour
)

// whilst makes a reader end with a context.
type whilst struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (w whilst) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Reader.Read(p)
}
