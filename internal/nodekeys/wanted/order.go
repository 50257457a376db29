package wanted

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Order says which of two goals is the later one. A node goes from one goal to a later one, and never back: a restore of etcd brings the
// DaemonSet of an earlier time back, whose pods would have nodes trust a former CA again. The zero value is before all others.
type Order struct {
	// Rotation is when the rotation was asked for, in UTC and RFC 3339. Each rotation is asked for by a later time than the one before.
	Rotation string
	// Step is the step of that rotation; the first is 1.
	Step int
}

// String is what ParseOrder reads.
func (o Order) String() string { return fmt.Sprintf("%s %d", o.Rotation, o.Step) }

// Before reports whether the other goal is a later one.
func (o Order) Before(other Order) bool {
	// Times of one form, in UTC, have the order of their texts.
	return o.Rotation < other.Rotation || o.Rotation == other.Rotation && o.Step < other.Step
}

// ParseOrder reads an order, which is not zero.
func ParseOrder(text string) (Order, error) {
	rotation, number, _ := strings.Cut(strings.TrimSpace(text), " ")
	at, err := time.Parse(time.RFC3339, rotation)
	if err != nil || at.UTC().Format(time.RFC3339) != rotation {
		return Order{}, fmt.Errorf("%.100q does not begin with a time in UTC and RFC 3339", text)
	}
	step, err := strconv.Atoi(number)
	if err != nil || step < 1 {
		return Order{}, fmt.Errorf("%.100q does not end with the number of a step", text)
	}
	return Order{rotation, step}, nil
}
