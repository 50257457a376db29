package program

import (
	"math"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/software"
)

// spent is where the time of a run went.
type spent struct {
	download, unpack, check time.Duration
}

// timed runs something and adds its time to the sum.
func (p *Program) timed(sum *time.Duration, run func() error) error {
	now := p.clock
	if now == nil {
		now = time.Now
	}
	started := now()
	defer func() { *sum += now().Sub(started) }()
	return run()
}

// took is where the time of this run went. A run that had nothing to do has that of the last one: its result must not differ.
func (p *Program) took() *software.Took {
	if p.spent != (spent{}) {
		return &software.Took{
			DownloadSeconds: seconds(p.spent.download), UnpackSeconds: seconds(p.spent.unpack), CheckSeconds: seconds(p.spent.check),
		}
	}
	if last, err := readResult(p.Disk); err == nil && last != nil {
		return last.Took
	}
	return nil
}

// seconds are rounded to milliseconds.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }
