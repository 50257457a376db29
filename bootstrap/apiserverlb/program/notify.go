package program

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// statusInterval is how often systemd is told what systemctl status shows.
const statusInterval = 10 * time.Second

// notify tells systemd, until the context ends, that the program is ready, what its status is, and that it lives. The program
// is ready as soon as it listens, because it knows seeds from its start. Without systemd notify does nothing.
func (p *Program) notify(ctx context.Context) {
	tell := func(message string) {
		if _, err := daemon.SdNotify(false, message); err != nil {
			p.log.Error(err, "Cannot notify systemd")
		}
	}
	tell(daemon.SdNotifyReady + "\nSTATUS=" + p.summary())
	interval := statusInterval
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		p.log.Error(err, "The watchdog of systemd is not used")
	}
	if watchdog > 0 {
		interval = min(interval, watchdog/3)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			tell(daemon.SdNotifyStopping)
			return
		case <-ticker.C:
		}
		message := "STATUS=" + p.summary()
		if watchdog > 0 && p.checker.Alive() {
			message += "\n" + daemon.SdNotifyWatchdog
		}
		tell(message)
	}
}

// summary is one line for systemctl status.
func (p *Program) summary() string {
	report := p.Report()
	return fmt.Sprintf("%d of %d API servers ready, %d connections", report.Ready(), len(report.Backends), report.Connections)
}
