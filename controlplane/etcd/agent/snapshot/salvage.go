package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
)

// Survivor is a member of a former cluster of which data are left.
type Survivor struct {
	// DataDir has its data, which are never changed.
	DataDir string
	// Etcd is the program of etcd, which should have the version of the member.
	Etcd string
	// Program restores in a child process.
	Program Program
}

// NeedBytes is the room that it takes to salvage the data as they are now.
func (s Survivor) NeedBytes() (int64, error) {
	files, err := s.files()
	if err != nil {
		return 0, fmt.Errorf("look how large the data of a member are: %w", err)
	}
	return files.needed(), nil
}

// Salvage makes the data of a new cluster from all that the log of a survivor has, also from what the survivor did not know to be
// committed. It works on a copy, in the data directory of the new member, which has no data before. They are there whole, or not at all.
func (s Survivor) Salvage(ctx context.Context, t Target) (Restored, error) {
	files, err := s.files()
	if err != nil {
		return Restored{}, fmt.Errorf("salvage %s: %w", s.DataDir, err)
	}
	if s.Etcd, err = filepath.Abs(s.Etcd); err != nil {
		return Restored{}, err
	}
	restored, err := t.fill(files.needed(), "to salvage "+s.DataDir, func(work string) (Restored, error) {
		copied, plain := filepath.Join(work, "copy"), filepath.Join(work, plainFile)
		if err := files.copyTo(ctx, s.DataDir, copied); err != nil {
			return Restored{}, fmt.Errorf("copy the data: %w", err)
		}
		if err := raise(filepath.Join(copied, "member")); err != nil {
			return Restored{}, fmt.Errorf("have etcd take the whole log for committed: %w", err)
		}
		revision, err := s.export(ctx, work, copied, plain)
		if err != nil {
			return Restored{}, err
		}
		// The room is for one of both.
		if err := os.RemoveAll(copied); err != nil {
			return Restored{}, err
		}
		return t.place(ctx, s.Program, plain, "what etcd gave of the copy", revision)
	})
	if err != nil {
		return Restored{}, fmt.Errorf("salvage %s: %w", s.DataDir, err)
	}
	return restored, nil
}

// export starts etcd on the copy as the only member of its cluster, waits until it has applied its log, and writes its snapshot to a
// file. It returns the revision.
func (s Survivor) export(ctx context.Context, work, copied, plain string) (revision int64, err error) {
	t, err := startTrial(s.Etcd, work, copied, "--force-new-cluster")
	if err != nil {
		return 0, err
	}
	defer t.end()
	if err := t.ready(ctx); err != nil {
		return 0, fmt.Errorf("start etcd on the copy: %w: %s", err, lastLine(t.said.String()))
	}
	if err := t.sound(ctx); err != nil {
		return 0, err
	}
	status, err := t.client.Status(ctx, endpointOfTrial)
	if err != nil {
		return 0, fmt.Errorf("ask etcd on the copy: %w", err)
	}
	stream, err := t.client.SnapshotWithVersion(ctx)
	if err != nil {
		return 0, fmt.Errorf("take a snapshot of the copy: %w", err)
	}
	defer stream.Snapshot.Close() //nolint:errcheck // It was only read.
	file, err := os.OpenFile(plain, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(file, stream.Snapshot)
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("take a snapshot of the copy: %w", err)
	}
	return status.Header.Revision, nil
}

// sound is an error where the cluster found out that its members differ: etcd would take no writes, and a person decides who is right.
func (t *trial) sound(ctx context.Context) error {
	alarms, err := t.client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("ask etcd on the copy for alarms: %w", err)
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm == etcdserverpb.AlarmType_CORRUPT {
			return errors.New("the cluster has the alarm CORRUPT, for the data of its members differ: name a snapshot from before")
		}
	}
	return nil
}

// survivorFiles are the files of a member that etcd goes on from, by their paths in the data directory, and their sizes.
type survivorFiles struct {
	paths          []string
	log, snapshots int64
}

// files finds the log, and the database with its snapshots. What etcd left unfinished is not among them.
func (s Survivor) files() (survivorFiles, error) {
	var f survivorFiles
	for _, of := range []struct {
		folder   string
		endings  []string
		database string
		bytes    *int64
	}{
		{filepath.Join("member", "wal"), []string{".wal"}, "", &f.log},
		{filepath.Join("member", "snap"), []string{".snap", ".snap.db"}, "db", &f.snapshots},
	} {
		entries, err := os.ReadDir(filepath.Join(s.DataDir, of.folder))
		if err != nil {
			return f, err
		}
		for _, entry := range entries {
			wanted := entry.Name() == of.database
			for _, ending := range of.endings {
				wanted = wanted || strings.HasSuffix(entry.Name(), ending)
			}
			if !wanted || !entry.Type().IsRegular() {
				continue
			}
			info, err := entry.Info()
			if err != nil {
				return f, err
			}
			f.paths = append(f.paths, filepath.Join(of.folder, entry.Name()))
			*of.bytes += info.Size()
		}
	}
	return f, nil
}

// needed is the most room that a salvage takes at a time. First there are the copies of the log and of the database, and what
// etcd sent. Then the copies are deleted, and the new database, of the same size, is beside what etcd sent.
func (f survivorFiles) needed() int64 { return 2*f.snapshots + f.log + backup.LogBytes }

// copyTo copies the files to another data directory.
func (f survivorFiles) copyTo(ctx context.Context, from, to string) error {
	for _, path := range f.paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		target := filepath.Join(to, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := copyFile(filepath.Join(from, path), target); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := os.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // It was only read.
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
