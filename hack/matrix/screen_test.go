package main

import (
	"errors"
	"fmt"
	"testing"
)

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("the terminal is closed") }

func TestAScreenThatIsGoneEndsNothing(t *testing.T) {
	if n, err := fmt.Fprint(screen{gone{}}, "a line"); err != nil || n != len("a line") {
		t.Errorf("%d, %v", n, err)
	}
}
