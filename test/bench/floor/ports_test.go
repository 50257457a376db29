package floor

import (
	"fmt"
	"net"
	"slices"
	"testing"
)

func TestAPortIsInUseWhateverAddressItsListenerHas(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", ":0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		port := int32(listener.Addr().(*net.TCPAddr).Port)
		taken, err := inUse([]int32{port})
		if err != nil || !slices.Equal(taken, []string{fmt.Sprint(port)}) {
			t.Errorf("%s: in use are %v, %v", address, taken, err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		if taken, err := inUse([]int32{port}); err != nil || len(taken) > 0 {
			t.Errorf("%s, closed: in use are %v, %v", address, taken, err)
		}
	}
}
