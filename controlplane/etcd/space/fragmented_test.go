package space

import "testing"

func TestAFileIsFragmentedWhereItPaysToWriteItAnew(t *testing.T) {
	const mebi = int64(1) << 20
	for name, test := range map[string]struct {
		size, inUse, quota int64
		want               bool
	}{
		"a small file": {100 * mebi, mebi, 2 * gib, false},
		"half of it is free, but that is not much": {200 * mebi, 80 * mebi, 2 * gib, false},
		"most of it is free":                       {256 * mebi, 127 * mebi, 2 * gib, true},
		"half of it is in use":                     {512 * mebi, 256 * mebi, 2 * gib, false},
		"it is near its quota":                     {1700 * mebi, 1500 * mebi, 2 * gib, true},
		"it is near its quota, and all is in use":  {1700 * mebi, 1600 * mebi, 2 * gib, false},
		"nobody knows its quota":                   {1700 * mebi, 1500 * mebi, 0, false},
		"it does not say how much is in use":       {1700 * mebi, 0, 2 * gib, false},
	} {
		m := Member{Started: true, Size: test.size, InUse: test.inUse, Quota: test.quota}
		if got := m.Fragmented(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		m.Started = false
		if m.Fragmented() {
			t.Errorf("%s: one that has not started is", name)
		}
	}
}
