package background

import "time"

// Backoff decides when a task runs again. While its outcome has a text, which says what is wrong, that is after First, then
// after twice as long each time, up to Most. Without a text it is after Most.
type Backoff struct {
	First, Most time.Duration
	next        time.Duration
}

// After is how long to wait after an outcome.
func (b *Backoff) After(text string) time.Duration {
	if text == "" {
		b.next = 0
		return b.Most
	}
	wait := min(max(b.next, b.First), b.Most)
	b.next = 2 * wait
	return wait
}
