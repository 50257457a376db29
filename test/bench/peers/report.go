package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/bench/timeline"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/figures"
)

// measure is something that both products do.
type measure string

const (
	creation measure = "creation"
	upgrade  measure = "upgrade"
	deletion measure = "deletion"
	together measure = "creation together"
)

// samples are how long products took.
type samples map[measure]map[*product][]time.Duration

func (s samples) add(p *product, took map[measure]time.Duration) {
	for m, d := range took {
		if s[m] == nil {
			s[m] = map[*product][]time.Duration{}
		}
		s[m][p] = append(s[m][p], d)
	}
}

// seconds returns the median of a measure of a product.
func (s samples) seconds(m measure, p *product) float64 { return timeline.Median(s[m][p]).Seconds() }

// report prints a table, and keeps the figures: how long ours takes, as a share of what the peer takes.
func (b *bench) report() error {
	measured := b.figures()
	table := tabwriter.NewWriter(b.Log, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintf(table, "\nMEDIAN OF %d\t%s\t%s\n", b.rounds, b.own.Name, b.peer.Name)
	_, failed := fmt.Fprintf(table, "together\t%d\t%d\n", b.together, b.together)
	err = errors.Join(err, failed)
	for _, m := range []measure{creation, together, upgrade, deletion} {
		_, failed := fmt.Fprintf(table, "%s\t%.1f s\t%.1f s\n", m, b.took.seconds(m, b.own), b.took.seconds(m, b.peer))
		err = errors.Join(err, failed)
	}
	_, failed = fmt.Fprintf(table, "failed requests of upgrades\t%d of %d\t%d of %d\n", b.failed[b.own], b.sent[b.own], b.failed[b.peer], b.sent[b.peer])
	err = errors.Join(err, failed, table.Flush())
	_, failed = fmt.Fprintf(b.Log, "\nbeside it: %s\n", b.others)
	err = errors.Join(err, failed)
	for _, figure := range measured {
		_, failed := fmt.Fprintln(b.Log, figure)
		err = errors.Join(err, failed)
	}
	return errors.Join(err, figures.Write("bench-peers", measured))
}

func (b *bench) figures() []figures.Figure {
	ratio := func(name string, m measure) figures.Figure {
		return figures.New(name, fmt.Sprintf("%.2f", b.took.seconds(m, b.own)/b.took.seconds(m, b.peer)), "of what "+b.peer.Name+" takes")
	}
	return []figures.Figure{
		ratio("peer_create_ratio", creation), ratio("peer_create_many_ratio", together), ratio("peer_upgrade_ratio", upgrade), ratio("peer_delete_ratio", deletion),
		figures.New("peer_upgrade_failed_requests", b.failed[b.own], "requests of ours"),
		figures.New("peer_upgrade_failed_requests_of_peer", b.failed[b.peer], "requests of "+b.peer.Name),
	}
}
