package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// page is how many keys are read at once.
const page = 500

// Lost are the acknowledged keys that an API does not have, or has with another value, or had with another when they were
// read back, with a word on each. The journal was stopped before.
func (j *Journal) Lost(ctx context.Context, api kubernetes.Interface) ([]string, error) {
	found := map[string]string{}
	options := metav1.ListOptions{LabelSelector: label + "=" + j.options.Name, Limit: page}
	for {
		list, err := api.CoreV1().ConfigMaps(j.options.Namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("read the keys of the journal %s: %w", j.options.Name, err)
		}
		for i := range list.Items {
			found[list.Items[i].Name] = list.Items[i].Data[value]
		}
		if options.Continue = list.Continue; options.Continue == "" {
			maps.Copy(found, j.other)
			return lost(j.acknowledged, found), nil
		}
	}
}

func lost(acknowledged, found map[string]string) []string {
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(acknowledged)) {
		if text, there := found[name]; !there {
			lost = append(lost, name+" is not there")
		} else if text != acknowledged[name] {
			lost = append(lost, fmt.Sprintf("%s is %q, %q was acknowledged", name, text, acknowledged[name]))
		}
	}
	return lost
}

// Before are those of lost keys that are of this journal and have a lower number. Lost gave them.
func (j *Journal) Before(number int, lost []string) (before []string) {
	for _, text := range lost {
		name, _, _ := strings.Cut(text, " ")
		if is, own := j.number(name); own && is < number {
			before = append(before, text)
		}
	}
	return before
}

// Unseen waits until the watch has brought every key that was acknowledged until now, and returns those that it has not
// brought in time. The journal is not stopped yet.
func (j *Journal) Unseen(ctx context.Context, patience time.Duration) ([]string, error) {
	j.lock.Lock()
	expected := maps.Clone(j.acknowledged)
	j.lock.Unlock()
	var unseen []string
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		unseen = nil
		for _, name := range slices.Sorted(maps.Keys(expected)) {
			seen, problem := j.watch.has(name, expected[name])
			if problem != nil {
				return false, problem
			}
			if !seen {
				unseen = append(unseen, name)
			}
		}
		return len(unseen) == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return unseen, nil
	}
	return unseen, err
}
