package load

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestAWatchIsBackWithTheFirstChangeThatWasMadeAfterTheFault(t *testing.T) {
	fault := Moment(10 * time.Second)
	for name, test := range map[string]struct {
		seen []sight
		away time.Duration
		back bool
	}{
		"it brought nothing":                        {},
		"it brought what was made before the fault": {seen: []sight{{fault - 1, fault.Add(time.Second)}}},
		"it was never away":                         {seen: []sight{{fault - 1, fault}, {fault + 1, fault.Add(time.Millisecond)}}, away: time.Millisecond, back: true},
		"it came back, and brought more":            {seen: []sight{{fault + 1, fault.Add(3 * time.Second)}, {fault + 2, fault.Add(4 * time.Second)}}, away: 3 * time.Second, back: true},
	} {
		t.Run(name, func(t *testing.T) {
			away, back := (&watcher{seen: test.seen}).away(fault)
			if away != test.away || back != test.back {
				t.Errorf("away for %s, back %v; want %s, %v", away, back, test.away, test.back)
			}
		})
	}
}

func TestOnlyAWatchThatIsEndedByOthersCountsAsEnded(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(events, noted watch.Interface)
		want int
	}{
		"ended by the server":    {func(events, _ watch.Interface) { events.Stop() }, 1},
		"stopped by its watcher": {func(_, noted watch.Interface) { noted.Stop() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watcher{}
			events := watch.NewFake()
			noted := w.noting(events)
			go events.Modify(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: object}})
			if event := <-noted.ResultChan(); event.Type != watch.Modified {
				t.Fatalf("got %v", event)
			}
			test.end(events, noted)
			if _, open := <-noted.ResultChan(); open {
				t.Fatal("the watch goes on")
			}
			if got := w.ended(0, Forever); got != test.want {
				t.Errorf("%d ends, want %d", got, test.want)
			}
		})
	}
}
