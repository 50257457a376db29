package hosttest

func homeOf(user string) string { return "/home/" + user }

func (s *Simulated) getent(args []string) (string, int) {
	user := args[1]
	if !s.Users[user] {
		return "", 2
	}
	return user + ":x:1000:1000:,,,:" + homeOf(user) + ":/bin/bash\n", 0
}

func (s *Simulated) passwd(args []string) (string, int) {
	user := args[1]
	return user + " " + map[bool]string{true: "L", false: "P"}[s.Locked[user]] + " 2026-01-01 0 99999 7 -1\n", 0
}

// usermod unlocks a user's password.
func (s *Simulated) usermod(args []string) (string, int) {
	delete(s.Locked, args[len(args)-1])
	return "", 0
}

func (s *Simulated) userdel(args []string) (string, int) {
	user := args[len(args)-1]
	delete(s.Users, user)
	delete(s.Locked, user)
	s.Remove(homeOf(user))
	return "", 0
}
