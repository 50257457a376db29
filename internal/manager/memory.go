package manager

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

// memoryLimit is the variable that has the limit of the container, in bytes.
const memoryLimit = "MEMORY_LIMIT"

// limitMemory makes Go collect garbage harder at nine tenths of the container's limit. The rest is for memory outside of
// Go's heap. GOMEMLIMIT takes precedence.
func limitMemory() error {
	given := os.Getenv(memoryLimit)
	if given == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(given, 10, 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("the variable %s of the environment is %q; it must be a number of bytes", memoryLimit, given)
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}
