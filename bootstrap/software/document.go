// Package software has what bootstrap data and kok-software share: the document with the software of a machine, paths on the
// machine, and the result that the program writes.
package software

import (
	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Paths on a machine.
const (
	// Dir has everything of the program: what it installed, and its notes.
	Dir = "/opt/kok-software/"
	// Program is the program kok-software.
	Program = Dir + "bin/kok-software"
	// DocumentFile is the Document, in JSON. Only root reads it: it may hold passwords of mirrors.
	DocumentFile = onworker.Dir + "software.json"
	// ResultFile is the Result of the last run, in JSON.
	ResultFile = Dir + "result.json"
)

// Format is the newest format of Documents that this version knows. A new field that a machine must not ignore needs a new
// format. Test data list the fields of each format.
const Format = 1

// Document describes the software of a machine. It is complete: the machine needs no connection to the management cluster to
// install it.
type Document struct {
	// FormatVersion is the oldest format that has all fields of this document. A KOKSoftware may name an older kok-software,
	// which accepts formats that it knows. 0 stands for 1: the first format had no field for it.
	FormatVersion int `json:"formatVersion,omitempty"`
	// Name is that of the KOKSoftware, for people.
	Name string `json:"name"`
	// Version is the Kubernetes version of the Machine.
	Version string `json:"version"`
	// Mirrors, Components and Kernel are those of the KOKSoftware.
	Mirrors    []Mirror                        `json:"mirrors,omitempty"`
	Components []bootstrapv1.SoftwareComponent `json:"components"`
	Kernel     bootstrapv1.SoftwareKernel      `json:"kernel,omitzero"`
}

// Mirror is a bootstrapv1.SoftwareMirror with the content of its Secrets.
type Mirror struct {
	Prefix    string     `json:"prefix"`
	Endpoints []Endpoint `json:"endpoints"`
	Exclusive bool       `json:"exclusive,omitempty"`
}

// Endpoint is a bootstrapv1.SoftwareEndpoint with the content of its Secret.
type Endpoint struct {
	URL      string `json:"url"`
	CABundle string `json:"caBundle,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// Reason says in one word why software could not be installed. The condition Bootstrapped of an IDCMachine has the same
// reasons.
type Reason string

const (
	// NoVariant means that no variant of a component matches the machine.
	NoVariant Reason = "SoftwareNotForHost"
	// NoSource means that no server gave a file with the right SHA-256.
	NoSource Reason = "SoftwareNotAvailable"
	// NoRoom means that a disk is full.
	NoRoom Reason = "NoRoomForSoftware"
	// NotWorking means that the new software does not work. The software before was put back.
	NotWorking Reason = "SoftwareNotWorking"
	// NotInstalled means any other failure.
	NotInstalled Reason = "SoftwareNotInstalled"
)

// Result is how a run of the program ended.
type Result struct {
	// Reason is empty after a run that succeeded.
	Reason Reason `json:"reason,omitempty"`
	// Component is the one that could not be installed. It is empty when the problem is of no single component.
	Component string `json:"component,omitempty"`
	// Message says what is wrong and what to do, in at most two sentences without secrets.
	Message string `json:"message,omitempty"`
	// Avoided are sources that failed before another one gave the file, each as "URL: what was wrong".
	Avoided []string `json:"avoided,omitempty"`
	// Took is where the time went in the last run that downloaded, unpacked or started anything; nil without such a run.
	Took *Took `json:"took,omitempty"`
}

// Took is where the time of an install went, in seconds.
type Took struct {
	// DownloadSeconds passed until all files were there, with the check of their SHA-256. Files come side by side.
	DownloadSeconds float64 `json:"downloadSeconds"`
	// UnpackSeconds is how long it took to put revisions on the disk.
	UnpackSeconds float64 `json:"unpackSeconds"`
	// CheckSeconds is how long units took to start, and their checks to succeed.
	CheckSeconds float64 `json:"checkSeconds"`
}
