package hosts

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
)

// RunReading is Run of a command that may print much. read gets the output as it arrives, and the manager keeps in memory only what read keeps.
func (h *Host) RunReading(ctx context.Context, read func(*Output) error, args ...string) error {
	result, err := h.connection.Run(ctx, h.asRoot(ssh.Command{Args: args, Read: func(output io.Reader) error { return read(&Output{output}) }}))
	_, err = output(args, result, err)
	return err
}

// Output is what a command prints, by a line or an element at a time.
type Output struct{ io.Reader }

// Lines reads the lines. One of more than 64 KiB is an error.
func (o *Output) Lines(each func(line string) error) error {
	lines := bufio.NewScanner(o)
	for lines.Scan() {
		if err := each(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Elements reads the elements of an array in JSON: that of this name in an object, or the array itself where the name is empty. An
// element of more than 1 MiB is an error, and so is an array that does not end.
func Elements[T any](o *Output, name string, each func(T) error) error {
	elements := &pieces{from: o, left: ssh.MaxOutput}
	decoder := json.NewDecoder(elements)
	begin := []json.Token{json.Delim('[')}
	if name != "" {
		begin = []json.Token{json.Delim('{'), name, json.Delim('[')}
	}
	for _, want := range begin {
		got, err := decoder.Token()
		switch {
		case err != nil:
			return fmt.Errorf("a list in JSON should be there, and it has no %v: %w", want, whole(err))
		case got != want:
			return fmt.Errorf("a list in JSON should be there, and it has no %v", want)
		}
	}
	for decoder.More() {
		elements.left = ssh.MaxOutput
		var element T
		if err := decoder.Decode(&element); err != nil {
			return whole(err)
		}
		if err := each(element); err != nil {
			return err
		}
	}
	_, err := decoder.Token()
	return whole(err)
}

// whole makes an error of an end that comes too early.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// pieces fails when one piece needs more than is left. A decoder of JSON keeps a piece until it is whole.
type pieces struct {
	from io.Reader
	left int
}

func (p *pieces) Read(data []byte) (int, error) {
	if p.left <= 0 {
		return 0, fmt.Errorf("one of its elements has more than %d bytes", ssh.MaxOutput)
	}
	// Between elements the decoder looks at all white space anew after each read, so a host that sends it byte by byte would keep the manager busy.
	n, err := io.ReadFull(p.from, data[:min(len(data), p.left)])
	p.left -= n
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// MaxKept is how many bytes a reader keeps of a long output at most, because a host must not fill the manager's memory. It is enough for
// the chains of the 10,000 Services and 150,000 pods that Kubernetes supports.
const MaxKept = 16 << 20

// Kept counts how many bytes a reader keeps.
type Kept int

// Add fails when a reader would keep more than MaxKept with this text.
func (k *Kept) Add(text string) error {
	*k += Kept(len(text))
	if *k > MaxKept {
		return fmt.Errorf("more than %d bytes of it are needed", MaxKept)
	}
	return nil
}
