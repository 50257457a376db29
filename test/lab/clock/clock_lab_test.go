//go:build lab

package clock

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// tells is the role of a program that tells the time whenever it is asked, and reads it all the time.
const tells = "tells"

func TestMain(m *testing.M) {
	if reexec.Role() != tells {
		os.Exit(m.Run())
	}
	began := time.Now()
	for range 3 {
		go func() {
			for {
				_ = time.Now()
			}
		}()
	}
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		fmt.Println(time.Now().Unix(), int(time.Since(began).Seconds()))
	}
}

func TestAProcessHasAWrongClockForAWhile(t *testing.T) {
	const off = 10 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	program := reexec.Command(ctx, tells)
	in, err := program.StdinPipe()
	must(t, err)
	out, err := program.StdoutPipe()
	must(t, err)
	must(t, program.Start())
	t.Cleanup(func() { cancel(); _ = program.Wait() })
	said := bufio.NewScanner(out)
	began := time.Now()
	expect := func(when string, ahead time.Duration) {
		t.Helper()
		before := time.Now()
		_, err := fmt.Fprintln(in)
		must(t, err)
		if !said.Scan() {
			t.Fatalf("%s: it ended", when)
		}
		var now, running int64
		_, err = fmt.Sscan(said.Text(), &now, &running)
		must(t, err)
		if now < before.Add(ahead).Unix() || now > time.Now().Add(ahead).Unix() {
			t.Errorf("%s: it says %d, and it is %d", when, now, time.Now().Unix())
		}
		if most := int64(time.Since(began).Seconds()) + 1; running < 0 || running > most {
			t.Errorf("%s: it has run for %d seconds, not for %d at most", when, running, most)
		}
	}
	expect("at first", 0)
	for range 5 {
		for _, ahead := range []time.Duration{off, -off} {
			back, err := Shift(ctx, program.Process.Pid, ahead)
			must(t, err)
			expect("while it is wrong", ahead)
			must(t, back(ctx))
			expect("when it is right again", 0)
		}
	}
	back, err := Shift(ctx, program.Process.Pid, off)
	must(t, err)
	must(t, program.Process.Kill())
	_ = program.Wait()
	must(t, back(ctx))
	if _, err := Shift(ctx, program.Process.Pid, off); err == nil {
		t.Error("a process that ended has a clock")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
