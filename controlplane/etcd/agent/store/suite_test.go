package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// random are so many bytes that differ by a seed.
func random(bytes int, seed uint64) []byte {
	data, source := make([]byte, bytes), rand.New(rand.NewPCG(seed, 2))
	for i := range data {
		data[i] = byte(source.Uint32())
	}
	return data
}

func read(t testing.TB, s Store, name string) []byte {
	t.Helper()
	object, err := s.Get(t.Context(), name)
	must(t, err)
	defer object.Close() //nolint:errcheck // It was only read.
	data, err := io.ReadAll(object)
	must(t, err)
	return data
}

// suite is what every store does. Each case gets an empty one.
func suite(t *testing.T, empty func(t *testing.T) Store) {
	t.Run("what is put is there, whatever its size", func(t *testing.T) {
		s := empty(t)
		for i, size := range []int{0, 1, 1 << 10, partBytes - 1, partBytes, partBytes + 1, 2*partBytes + 7} {
			name, data := fmt.Sprintf("object-%d", i), random(size, uint64(i))
			must(t, s.Put(t.Context(), name, iotest.OneByteReader(bytes.NewReader(data[:min(size, 100)]))))
			must(t, s.Delete(t.Context(), name))
			must(t, s.Put(t.Context(), name, io.MultiReader(bytes.NewReader(data))))
			if got := read(t, s, name); !bytes.Equal(got, data) {
				t.Errorf("of %d bytes %d came back", size, len(got))
			}
		}
	})
	t.Run("nothing is replaced", func(t *testing.T) {
		s := empty(t)
		must(t, s.Put(t.Context(), "a", strings.NewReader("first")))
		for _, data := range []string{"second", string(random(partBytes+1, 1))} {
			if err := s.Put(t.Context(), "a", strings.NewReader(data)); !errors.Is(err, ErrExists) {
				t.Errorf("it says %v", err)
			}
		}
		if got := read(t, s, "a"); string(got) != "first" {
			t.Errorf("it is %.20q", got)
		}
	})
	t.Run("of many who write one name one does", func(t *testing.T) {
		s := empty(t)
		for _, size := range []int{100, partBytes + 1} {
			name := fmt.Sprintf("of-%d", size)
			var group sync.WaitGroup
			results := make([]error, 6)
			for i := range results {
				group.Go(func() { results[i] = s.Put(t.Context(), name, bytes.NewReader(random(size, uint64(i)))) })
			}
			group.Wait()
			winner := -1
			for i, err := range results {
				switch {
				case err == nil && winner >= 0:
					t.Errorf("%d and %d wrote it", winner, i)
				case err == nil:
					winner = i
				case !errors.Is(err, ErrExists):
					t.Error(err)
				}
			}
			if winner < 0 || !bytes.Equal(read(t, s, name), random(size, uint64(winner))) {
				t.Errorf("%d wrote it, and something else is there", winner)
			}
		}
	})
	t.Run("what ends with an error is not there", func(t *testing.T) {
		s, oh := empty(t), errors.New("oh")
		for _, size := range []int{0, 100, partBytes + 100} {
			content := io.MultiReader(bytes.NewReader(random(size, 1)), iotest.ErrReader(oh))
			if err := s.Put(t.Context(), "a", content); !errors.Is(err, oh) {
				t.Errorf("it says %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			content = io.MultiReader(bytes.NewReader(random(size, 1)), canceling{cancel})
			if err := s.Put(ctx, "a", content); !errors.Is(err, context.Canceled) {
				t.Errorf("it says %v", err)
			}
			if objects, err := s.List(t.Context()); err != nil || len(objects) != 0 {
				t.Errorf("there are %v: %v", objects, err)
			}
		}
	})
	t.Run("a listing has all by name", func(t *testing.T) {
		s := empty(t)
		for _, name := range []string{"b", "a.json", "a", "c-1"} {
			must(t, s.Put(t.Context(), name, strings.NewReader(name)))
		}
		must(t, s.Delete(t.Context(), "b"))
		objects, err := s.List(t.Context())
		must(t, err)
		var names []string
		for _, o := range objects {
			names = append(names, o.Name)
			if o.Bytes != int64(len(o.Name)) || o.Modified.IsZero() {
				t.Errorf("it has %+v", o)
			}
		}
		if got := strings.Join(names, " "); got != "a a.json c-1" {
			t.Errorf("it has %s", got)
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		s := empty(t)
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("it says %v", err)
		}
		must(t, s.Delete(t.Context(), "a"))
		must(t, s.Put(t.Context(), "ab", strings.NewReader("x")))
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("it says %v", err)
		}
	})
	t.Run("names are plain", func(t *testing.T) {
		s := empty(t)
		for _, name := range []string{"", ".", "..", "../a", "/a", "a/b", "a\x00", "a b", ".a", "-a", `a\b`, "ä", strings.Repeat("a", 129)} {
			_, err := s.Get(t.Context(), name)
			for what, err := range map[string]error{"put": s.Put(t.Context(), name, strings.NewReader("x")), "get": err, "delete": s.Delete(t.Context(), name)} {
				if err == nil || !strings.Contains(err.Error(), "is no name of an object") {
					t.Errorf("%s %q: %v", what, name, err)
				}
			}
		}
	})
	t.Run("a check leaves nothing", func(t *testing.T) {
		s := empty(t)
		for range 2 {
			must(t, s.Check(t.Context()))
		}
		if objects, err := s.List(t.Context()); err != nil || len(objects) != 0 {
			t.Errorf("there are %v: %v", objects, err)
		}
	})
}

// canceling ends a context, and goes on.
type canceling struct{ cancel context.CancelFunc }

func (c canceling) Read(p []byte) (int, error) {
	c.cancel()
	return copy(p, "x"), nil
}
