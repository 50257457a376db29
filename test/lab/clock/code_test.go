package clock

import (
	"bytes"
	"encoding/hex"
	"os"
	"testing"
	"time"
)

func TestTheCodeAddsSecondsToTheTimeOfDayAlone(t *testing.T) {
	for ahead, seconds := range map[time.Duration]string{
		10 * time.Minute:        "58 02 00 00 00 00 00 00",
		-10 * time.Minute:       "a8 fd ff ff ff ff ff ff",
		1500 * time.Millisecond: "01 00 00 00 00 00 00 00",
	} {
		want, err := hex.DecodeString(string(bytes.ReplaceAll([]byte("b8 e4 00 00 00 0f 05 85 ff 75 11 85 c0 75 0d 48 b9"+seconds+"48 01 0e c3"), []byte(" "), nil)))
		if err != nil {
			t.Fatal(err)
		}
		if got := codeOf(ahead); !bytes.Equal(got, want) {
			t.Errorf("%s: % x, not % x", ahead, got, want)
		}
	}
	// Both jumps lead to its last instruction.
	code := codeOf(0)
	for _, jump := range []int{9, 13} {
		if to := jump + 2 + int(code[jump+1]); code[jump] != 0x75 || to != len(code)-1 || code[to] != 0xc3 {
			t.Errorf("the jump at %d leads to %d of %d", jump, to, len(code))
		}
	}
}

func TestTheVDSOOfThisMachineHasRoomForTheCode(t *testing.T) {
	if right, wrong, err := process(os.Getpid()).clocks(codeOf(0)); err != nil || right == wrong {
		t.Errorf("its clock is at %x, another has room at %x, %v", right, wrong, err)
	}
}
