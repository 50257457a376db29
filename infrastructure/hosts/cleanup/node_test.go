package cleanup

import (
	"path"
	"strings"
	"testing"
)

func TestPathsThatAreRemovedWithANodeAreAbsoluteAndNotOfTheRootFolder(t *testing.T) {
	for _, file := range nodePaths {
		if !path.IsAbs(file) || path.Clean(file) != file || strings.Count(file, "/") < 2 {
			t.Errorf("%q must not be removed", file)
		}
	}
}
