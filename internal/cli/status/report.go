package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Report has the state of a cluster. Scripts read it as JSON.
type Report struct {
	// Available is true when the Cluster and its control plane are available. Well is true when besides nothing waits and no
	// host is bad.
	Available bool    `json:"available"`
	Well      bool    `json:"well"`
	Cluster   Cluster `json:"cluster"`
	// ControlPlane is nil for a Cluster that has no KOKControlPlane.
	ControlPlane       *ControlPlane       `json:"controlPlane,omitempty"`
	MachineDeployments []MachineDeployment `json:"machineDeployments"`
	Machines           Machines            `json:"machines"`
	Hosts              Hosts               `json:"hosts"`
	// Unread says what could not be read.
	Unread []string `json:"unread,omitempty"`
}

// Condition is one that is not as it should be.
type Condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message,omitempty"`
	Since   time.Time              `json:"since"`
}

// Cluster is the Cluster object.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty"`
	Available bool   `json:"available"`
	// Endpoint is where people reach the API.
	Endpoint   string      `json:"endpoint,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// ControlPlane is the KOKControlPlane.
type ControlPlane struct {
	Name string `json:"name"`
	// Version is the one that is wanted, Running those that pods have now.
	Version   string   `json:"version"`
	Running   []string `json:"running,omitempty"`
	Available bool     `json:"available"`
	// HostCluster is the Secret with the kubeconfig of the host cluster; empty for this cluster.
	HostCluster string      `json:"hostCluster,omitempty"`
	Endpoint    string      `json:"endpoint,omitempty"`
	Components  []Component `json:"components"`
	Conditions  []Condition `json:"conditions,omitempty"`
}

// Component is one program of a control plane.
type Component struct {
	Name string `json:"name"`
	// Ready and Desired are numbers of pods.
	Ready   int32 `json:"ready"`
	Desired int32 `json:"desired"`
	// Members are those of an etcd cluster.
	Members []Member `json:"members,omitempty"`
}

// Member is a member of an etcd cluster, as etcd itself listed it last.
type Member struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// MachineDeployment has numbers of Machines.
type MachineDeployment struct {
	Name       string      `json:"name"`
	Version    string      `json:"version,omitempty"`
	Desired    int32       `json:"desired"`
	Ready      int32       `json:"ready"`
	Available  int32       `json:"available"`
	UpToDate   int32       `json:"upToDate"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// Machines are all Machines of the cluster.
type Machines struct {
	Total int `json:"total"`
	Up    int `json:"up"`
	// NotUp are the others.
	NotUp []Machine `json:"notUp,omitempty"`
}

// Machine is a Machine that is not up.
type Machine struct {
	Name  string `json:"name"`
	Phase string `json:"phase,omitempty"`
	// Host is the IDCHost that it has.
	Host string `json:"host,omitempty"`
	// WaitsFor is the object that it waits for, and Condition what that says.
	WaitsFor  string    `json:"waitsFor"`
	Condition Condition `json:"condition"`
}

// Hosts are the IDCHosts of the namespace without those that another cluster's machines have.
type Hosts struct {
	Free    int `json:"free"`
	Claimed int `json:"claimed"`
	// Bad are those that cannot be used.
	Bad []Host `json:"bad,omitempty"`
}

// Host is an IDCHost that cannot be used.
type Host struct {
	Name    string    `json:"name"`
	Address string    `json:"address"`
	State   string    `json:"state"`
	Reason  string    `json:"reason"`
	Machine string    `json:"machine,omitempty"`
	Message string    `json:"message,omitempty"`
	WayOut  string    `json:"wayOut,omitempty"`
	Since   time.Time `json:"since"`
}
