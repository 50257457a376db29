package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/facts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/reexec"
)

// role is that of the agent, which runs itself. The others are of what it runs.
const (
	role            = "agent"
	roleWithoutRoom = "agent without room"
	roleOfAShortLog = "agent that finds a log too short"
	roleThatFails   = "agent that fails"
)

func TestMain(m *testing.M) {
	switch reexec.Role() {
	case role:
		main()
	case roleWithoutRoom:
		fmt.Println(`{"state":"NoSpace","message":"7 bytes of room are missing","freeBytes":1,"needBytes":8}`)
	case roleOfAShortLog:
		fmt.Println(`{"state":"Unreadable","reason":"LogTooShort","message":"entries are lost","freeBytes":8,"needBytes":8}`)
	case roleThatFails:
		panic("oh")
	default:
		os.Exit(m.Run())
	}
}

func execute(t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	command := newCommand()
	var stdout, stderr bytes.Buffer
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	command.SetArgs(args)
	err = command.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestPrepareTellsPeopleAndTheManager(t *testing.T) {
	s := reexec.NewStage(t)
	s.Cast(role)
	must(t, os.MkdirAll("bad/member/wal", 0o700))
	must(t, os.WriteFile("bad/member/wal/0000000000000000-0000000000000000.wal", []byte("no log"), 0o600))
	must(t, os.MkdirAll("unnoticed/member/snap", 0o700))
	db, err := bolt.Open("unnoticed/member/snap/db", 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("meta"))
		must(t, err)
		return meta.Put([]byte("consistent_index"), []byte("\x00\x00\x00\x00\x00\x00\x00\x07"))
	}))
	must(t, db.Close())
	for name, test := range map[string]struct {
		args   []string
		state  facts.State
		reason facts.Reason
		err    error
	}{
		"nothing is there":                {args: []string{"--data-dir=none"}, state: facts.Empty},
		"the log is none":                 {args: []string{"--data-dir=bad"}, state: facts.Unreadable, reason: facts.LogDamaged},
		"etcd notices, and it is held":    {args: []string{"--data-dir=bad", "--hold"}, state: facts.Unreadable, reason: facts.LogDamaged},
		"etcd takes no notice":            {args: []string{"--data-dir=unnoticed"}, state: facts.Unreadable, reason: facts.LogMissing},
		"the same, and the member's held": {args: []string{"--data-dir=unnoticed", "--hold"}, state: facts.Unreadable, reason: facts.LogMissing, err: errHeld},
		"there is no time":                {args: []string{"--data-dir=bad", "--timeout=1ns"}, state: facts.Unreadable, reason: facts.NotFinished},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			out, errs, err := execute(t, append([]string{"prepare", "--termination-log=" + log}, test.args...)...)
			if !errors.Is(err, test.err) || errs != "" {
				t.Errorf("it ended with %v: %s", err, errs)
			}
			message, err := os.ReadFile(log)
			must(t, err)
			f, err := facts.Decode(string(message))
			if err != nil || f.State != test.state || f.Reason != test.reason || f.NeedBytes != 80777216 && test.reason != facts.NotFinished {
				t.Errorf("the manager reads %#v: %v", f, err)
			}
			if strings.Count(out, "\n") != 1 || !strings.Contains(out, string(test.state)) || !strings.HasPrefix(out, strings.TrimPrefix(test.args[0], "--data-dir=")+": ") {
				t.Errorf("people read %q", out)
			}
		})
	}
}

// What is told of room by the child is what the command goes by: no test can fill a disk.
func TestPrepareFailsUntilThereIsRoom(t *testing.T) {
	s := reexec.NewStage(t)
	s.Cast(roleWithoutRoom)
	t.Setenv(facts.StartAnyway, "")
	for _, hold := range []string{"--hold=false", "--hold=true"} {
		out, errs, err := execute(t, "prepare", "--data-dir=any", "--termination-log=log", hold)
		if !errors.Is(err, errNoSpace) || errs != "" || out != "any: NoSpace: 7 bytes of room are missing\n" {
			t.Errorf("it ended with %v: %s%s", err, out, errs)
		}
		message, err := os.ReadFile("log")
		must(t, err)
		if f, err := facts.Decode(string(message)); err != nil || f.State != facts.NoSpace || f.Message == "" {
			t.Errorf("the manager reads %#v: %v", f, err)
		}
	}
}

func TestAPersonHasEtcdStartAnyway(t *testing.T) {
	s := reexec.NewStage(t)
	t.Setenv(facts.StartAnyway, "true")
	for role, state := range map[string]facts.State{roleWithoutRoom: facts.NoSpace, roleOfAShortLog: facts.Unreadable} {
		s.Cast(role)
		if _, errs, err := execute(t, "prepare", "--data-dir=any", "--termination-log=log", "--hold"); err != nil || errs != "" {
			t.Errorf("%s: it ended with %v: %s", role, err, errs)
		}
		message, err := os.ReadFile("log")
		must(t, err)
		if f, err := facts.Decode(string(message)); err != nil || f.State != state {
			t.Errorf("%s: the manager reads %#v: %v", role, f, err)
		}
	}
}

// Whatever goes wrong with the look, etcd starts.
func TestPrepareSucceedsWhereNothingCouldBeFoundOut(t *testing.T) {
	s := reexec.NewStage(t)
	s.Cast(roleThatFails)
	out, errs, err := execute(t, "prepare", "--data-dir=any", "--termination-log=log", "--hold")
	if err != nil || errs != "" || !strings.HasPrefix(out, "any: Unreadable (Unknown): the program that looks ended early") {
		t.Errorf("it ended with %v: %s%s", err, out, errs)
	}
}

// A manager that knows nothing of a member is no reason to keep it from starting.
func TestPrepareSucceedsWhereTheManagerCannotBeTold(t *testing.T) {
	s := reexec.NewStage(t)
	s.Cast(role)
	out, errs, err := execute(t, "prepare", "--data-dir=none", "--termination-log=no/folder")
	if err != nil || out != "none: Empty\n" || !strings.Contains(errs, "the manager is not told: open no/folder") {
		t.Errorf("it ended with %v: %s%s", err, out, errs)
	}
}

func TestMistakesAreTold(t *testing.T) {
	for message, args := range map[string][]string{
		`unknown command "go"`:                 {"go"},
		`unknown command "now" for`:            {"prepare", "--data-dir=a", "now"},
		`required flag(s) "data-dir" not set`:  {"prepare"},
		"--data-dir must name":                 {"prepare", "--data-dir="},
		`invalid argument "x" for "-`:          {"prepare", "--timeout=x"},
		"[seed-dir member] are set they must":  {"prepare", "--data-dir=a", "--seed-dir=b"},
		`required flag(s) "cacert", "cert", "`: {"serve"},
	} {
		if _, _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
