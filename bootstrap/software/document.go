// Package software is what the bootstrap data and the program kok-software agree on: the document that tells a machine
// which software it needs, where things are on the machine, and what the program says when it could not install it.
package software

import (
	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/onworker"
)

// Where things are on a machine.
const (
	// Dir holds all that the program keeps: what it installed, and what it notes.
	Dir = "/opt/kok-software/"
	// Program is the program kok-software.
	Program = Dir + "bin/kok-software"
	// DocumentFile is the Document, in JSON. Only root reads it: it may hold passwords of mirrors.
	DocumentFile = onworker.Dir + "software.json"
	// ResultFile is the Result of the last run, in JSON.
	ResultFile = Dir + "result.json"
)

// Format is the newest format of Documents that this version knows. A field that a machine must not overlook is a new
// format: test data list the fields of each.
const Format = 1

// Document tells a machine which software it needs. It is complete by itself: a program on the machine can work from it
// while the management cluster is away.
type Document struct {
	// FormatVersion is the oldest format that has all fields of this document: machines may have an older kok-software,
	// which their KOKSoftware names, and that reads what it knows. It is 0 for 1, from before there were others.
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

// Reason says in one word why software could not be installed. Reasons are those of the condition Bootstrapped of an
// IDCMachine, too.
type Reason string

const (
	// NoVariant means that no variant of a component is for what the machine is.
	NoVariant Reason = "SoftwareNotForHost"
	// NoSource means that no server gave a file with the right SHA-256.
	NoSource Reason = "SoftwareNotAvailable"
	// NoRoom means that a disk is full.
	NoRoom Reason = "NoRoomForSoftware"
	// NotWorking means that what was installed does not work; what was there before came back.
	NotWorking Reason = "SoftwareNotWorking"
	// NotInstalled means anything else that went wrong.
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
}
