package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// HostStatus is one row of Status.
type HostStatus struct {
	Host *host.Host
	// Booted tells whether the host has power.
	Booted bool
	// Node is Ready, NotReady, Unknown (its kubelet is not heard), or None when the host is no node of the cluster.
	Node string
	// Pods counts the node's pods that run.
	Pods int
	// CPU is the processors in use, measured over a fifth of a second; Memory is in bytes.
	CPU    float64
	Memory uint64
}

// Status is what there is of a lab.
type Status struct {
	Hosts []HostStatus
	// Cut tells whether the link between the sites is cut.
	Cut bool
	// Cluster is the error of asking the host cluster, nil when it answered.
	Cluster error
}

// Status looks at every host and asks the host cluster for its nodes and pods.
func (l *Lab) Status(ctx context.Context) (*Status, error) {
	hosts, err := l.Hosts()
	if err != nil {
		return nil, err
	}
	s := &Status{}
	if s.Cut, err = host.IsCut(l.network); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	before, began := map[string]host.Usage{}, time.Now()
	for _, h := range hosts {
		before[h.Name], _ = h.Usage() // a host without power has none
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(200 * time.Millisecond):
	}
	for _, h := range hosts {
		row := HostStatus{Host: h, Booted: h.Booted(), Node: "None"}
		if now, err := h.Usage(); err == nil {
			row.CPU = (now.CPU - before[h.Name].CPU).Seconds() / time.Since(began).Seconds()
			row.Memory = now.Memory
		}
		s.Hosts = append(s.Hosts, row)
	}
	s.Cluster = l.askCluster(ctx, s.Hosts)
	return s, nil
}

// askCluster fills in what the host cluster knows of the hosts.
func (l *Lab) askCluster(ctx context.Context, rows []HostStatus) error {
	config, err := l.RESTConfig()
	if err != nil {
		return err
	}
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the host cluster's nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
	if err != nil {
		return fmt.Errorf("list the host cluster's pods: %w", err)
	}
	ready, running := map[string]string{}, map[string]int{}
	for _, n := range nodes.Items {
		ready[n.Name] = readiness(n)
	}
	for _, p := range pods.Items {
		running[p.Spec.NodeName]++
	}
	for i, row := range rows {
		if r, ok := ready[row.Host.Name]; ok {
			rows[i].Node, rows[i].Pods = r, running[row.Host.Name]
		}
	}
	return nil
}

func readiness(n corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == corev1.ConditionTrue {
				return "Ready"
			}
			if c.Status == corev1.ConditionFalse {
				return "NotReady"
			}
		}
	}
	return "Unknown"
}

// Write prints the status as a table.
func (s *Status) Write(w io.Writer) error {
	if len(s.Hosts) == 0 {
		_, err := fmt.Fprintln(w, "The lab is down.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "HOST\tSITE\tADDRESS\tSTATE\tNODE\tPODS\tCPU\tMEMORY")
	for _, r := range s.Hosts {
		state, cpu, memory := "Off", "-", "-"
		if r.Booted {
			state, cpu, memory = "On", fmt.Sprintf("%.2f", r.CPU), fmt.Sprintf("%d MiB", r.Memory>>20)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Host.Name, r.Host.Site, r.Host.Address, state, r.Node, r.Pods, cpu, memory)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	link := "joined"
	if s.Cut {
		link = "CUT (lab heal joins them again)"
	}
	fmt.Fprintf(w, "\ncloud and idc are %s\n", link)
	if s.Cluster != nil {
		fmt.Fprintf(w, "the host cluster does not answer: %v\n", s.Cluster)
	}
	return nil
}

// exists tells whether a file is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
