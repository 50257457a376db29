package byhand

import "testing"

func TestAMemberIsRemovedInThePodOfTheFirstOtherOne(t *testing.T) {
	all := Etcdctl{"blue-2": "exec blue-2 etcdctl", "blue-0": "exec blue-0 etcdctl", "blue-1": "exec blue-1 etcdctl"}
	for name, test := range map[string]struct{ got, want string }{
		"a member that does not work": {all.Remove("blue-3", 0xab12), "run: exec blue-0 etcdctl member remove ab12"},
		"the first member":            {all.Remove("blue-0", 0xab12), "run: exec blue-1 etcdctl member remove ab12"},
		"one that a person chooses":   {all.RemoveOne(), "run: exec blue-0 etcdctl member remove ID"},
		"no other member works":       {Etcdctl{"blue-0": "exec blue-0 etcdctl"}.Remove("blue-0", 1), "bring back another member that votes, in whose pod etcdctl can do it"},
		"no member works":             {Etcdctl{}.RemoveOne(), "bring back another member that votes, in whose pod etcdctl can do it"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q", name, test.got)
		}
	}
}
