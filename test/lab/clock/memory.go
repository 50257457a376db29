package clock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// area is a part of a process's memory: proc_pid_maps(5).
type area struct {
	from, to uint64
	rights   string
	name     string
}

func (p process) areas() (all []area, err error) {
	text, err := os.ReadFile(p.path("maps"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		from, to, _ := strings.Cut(fields[0], "-")
		a := area{rights: fields[1]}
		var errs [2]error
		a.from, errs[0] = strconv.ParseUint(from, 16, 64)
		a.to, errs[1] = strconv.ParseUint(to, 16, 64)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("read the areas of its memory: %w", err)
		}
		if len(fields) > 5 {
			a.name = fields[5]
		}
		all = append(all, a)
	}
	return all, nil
}

// clocks are the addresses of the function that tells the time, and of another one that has room for code.
func (p process) clocks(code []byte) (right, wrong uint64, err error) {
	areas, err := p.areas()
	if err != nil {
		return 0, 0, err
	}
	i := slices.IndexFunc(areas, func(a area) bool { return a.name == "[vdso]" })
	if i < 0 {
		return 0, 0, errors.New("it has no vDSO")
	}
	vdso, err := p.read(areas[i])
	if err != nil {
		return 0, 0, err
	}
	to, err := find(vdso, asked, 1)
	if err != nil {
		return 0, 0, err
	}
	room, err := find(vdso, spare, len(code))
	return areas[i].from + to, areas[i].from + room, err
}

// holds is where the variables of the program hold an address, once.
func (p process) holds(address uint64) (at uint64, err error) {
	program, err := os.Readlink(p.path("exe"))
	if err != nil {
		return 0, err
	}
	areas, err := p.areas()
	if err != nil {
		return 0, err
	}
	var found []uint64
	var last area
	for _, a := range areas {
		// Those that begin with zero come without a name right behind the others.
		if a.name == "" && a.from == last.to && last.name == program {
			a.name = program
		}
		last = a
		if a.name != program || !strings.HasPrefix(a.rights, "rw") {
			continue
		}
		memory, err := p.read(a)
		if err != nil {
			return 0, err
		}
		for i := 0; i+8 <= len(memory); i += 8 {
			if bytes.Equal(memory[i:i+8], bytesOf(address)) {
				found = append(found, a.from+uint64(i)) //nolint:gosec // An offset.
			}
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("its variables hold %x at %x, not once: is it a Go program, and its clock right?", address, found)
	}
	return found[0], nil
}

func bytesOf(address uint64) []byte { return binary.LittleEndian.AppendUint64(nil, address) }

func (p process) read(a area) ([]byte, error) {
	memory, err := os.Open(p.path("mem"))
	if err != nil {
		return nil, err
	}
	defer memory.Close() //nolint:errcheck // only read
	content := make([]byte, a.to-a.from)
	_, err = memory.ReadAt(content, int64(a.from)) //nolint:gosec // An address of a program.
	return content, err
}

func (p process) write(content []byte, at uint64) error {
	memory, err := os.OpenFile(p.path("mem"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = memory.WriteAt(content, int64(at)) //nolint:gosec // An address of a program.
	return errors.Join(err, memory.Close())
}
