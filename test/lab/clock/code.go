package clock

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"time"
)

// Functions of the vDSO. Go calls the one for the time (runtime/vdso_linux_amd64.go), and never the one that has room for another.
const (
	asked = "__vdso_clock_gettime"
	spare = "__vdso_time"
)

// codeOf is machine code of amd64 for clock_gettime(2), as the vDSO has it, with so many whole seconds added to the time of day.
func codeOf(ahead time.Duration) []byte {
	code := []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228: clock_gettime
		0x0f, 0x05, //                   syscall
		0x85, 0xff, //                   test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x11, //                   jne to ret
		0x85, 0xc0, //                   test eax, eax
		0x75, 0x0d, //                   jne to ret
		0x48, 0xb9, //                   mov rcx, seconds
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(int64(ahead/time.Second))) //nolint:gosec // Two's complement, as the processor adds it.
	return append(code,
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, //             ret
	)
}

// find is where in a vDSO a function of at least some bytes is.
func find(vdso []byte, function string, least int) (offset uint64, err error) {
	image, err := elf.NewFile(bytes.NewReader(vdso))
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the functions of the vDSO: %w", err)
	}
	for _, symbol := range symbols {
		if symbol.Name != function || symbol.Size < uint64(least) { //nolint:gosec // A length.
			continue
		}
		for _, part := range image.Progs {
			if part.Type == elf.PT_LOAD && symbol.Value >= part.Vaddr && symbol.Value+symbol.Size <= part.Vaddr+part.Filesz {
				return symbol.Value - part.Vaddr + part.Off, nil
			}
		}
	}
	return 0, fmt.Errorf("the vDSO has no %s of %d bytes or more", function, least)
}
