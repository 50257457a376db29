package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// parts are where the time of machines went that installed their software. Each is that of the machine with the longest.
type parts struct {
	download, unpack, check time.Duration
	// images is how long kubelet pulled images of pods, one after the other. Machines that have their software have these images, too.
	images time.Duration
	// rest is what a machine took without the download of its software and of images. The program kok-software is downloaded in it.
	rest time.Duration
}

// add adds a machine that joined in a time, of which its software and images took some.
func (p *parts) add(joined time.Duration, took software.Took, images time.Duration) {
	download := duration(took.DownloadSeconds)
	p.download, p.unpack, p.check = max(p.download, download), max(p.unpack, duration(took.UnpackSeconds)), max(p.check, duration(took.CheckSeconds))
	p.images, p.rest = max(p.images, images), max(p.rest, joined-download-images)
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func (p parts) figures(prefix string, longest time.Duration) []figures.Figure {
	return []figures.Figure{
		seconds(prefix+"seconds", longest), seconds(prefix+"download_seconds", p.download), seconds(prefix+"unpack_seconds", p.unpack),
		seconds(prefix+"check_seconds", p.check), seconds(prefix+"images_seconds", p.images), seconds(prefix+"rest_seconds", p.rest),
	}
}

// parts reads from the machines that joined where their time went.
func (b *bench) parts(ctx context.Context, joined map[string]time.Duration) (all parts, err error) {
	for name, took := range joined {
		one, err := b.took(ctx, name)
		if err != nil {
			return all, fmt.Errorf("see where the time of Machine %s went: %w", name, err)
		}
		images, err := b.pulled(ctx, name)
		if err != nil {
			return all, fmt.Errorf("see how long Node %s pulled images: %w", name, err)
		}
		all.add(took, one, images)
	}
	return all, nil
}

// pulled is how long the kubelet of a Node pulled images so far, as its metrics say.
func (b *bench) pulled(ctx context.Context, node string) (time.Duration, error) {
	text, err := b.api.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes", node, "proxy", "metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	const name = "kubelet_image_pull_duration_seconds"
	family, found := families[name]
	if !found {
		return 0, fmt.Errorf("kubelet has no metric %s", name)
	}
	total := 0.0
	for _, metric := range family.GetMetric() {
		total += metric.GetHistogram().GetSampleSum()
	}
	return duration(total), nil
}

// took is what kok-software reports on the host of a Machine.
func (b *bench) took(ctx context.Context, name string) (software.Took, error) {
	key := client.ObjectKey{Namespace: b.Tenant.Key.Namespace, Name: name}
	machine, claimed := &clusterv1.Machine{}, &infrav1.IDCMachine{}
	if err := b.Client.Get(ctx, key, machine); err != nil {
		return software.Took{}, err
	}
	key.Name = machine.Spec.InfrastructureRef.Name
	if err := b.Client.Get(ctx, key, claimed); err != nil {
		return software.Took{}, err
	}
	if claimed.Spec.HostRef == nil {
		return software.Took{}, fmt.Errorf("IDCMachine %s has no host", key)
	}
	h, err := b.Host(claimed.Spec.HostRef.Name)
	if err != nil {
		return software.Took{}, err
	}
	content, err := h.Exec(ctx, nil, "cat", software.ResultFile)
	if err != nil {
		return software.Took{}, err
	}
	result := software.Result{}
	if err := json.Unmarshal(content, &result); err != nil {
		return software.Took{}, fmt.Errorf("read %s of %s: %w", software.ResultFile, h.Name, err)
	}
	if result.Took == nil {
		return software.Took{}, fmt.Errorf("%s of %s does not say where the time went", software.ResultFile, h.Name)
	}
	return *result.Took, nil
}
