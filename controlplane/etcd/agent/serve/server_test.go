package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/archive"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/backup"
	"github.com/kube-on-kube/cluster-api-provider-kok/controlplane/etcd/agent/snapshot"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/loopback"
)

const (
	manager = "kok-control-plane"
	peers   = "one-etcd-data"
)

// answering is an agent that only answers.
func answering(t *testing.T, ca *authority) (*agent, string) {
	t.Helper()
	l := loopback.Listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Member: "me", ConfigDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }, Serving: Serving{ClientCA: ca.file, ClientName: manager, PeerName: peers}}
	o.Serving.Certificate, o.Serving.Key = ca.files("server", net.IPv4(127, 0, 0, 1))
	a := newAgent(ctx, o)
	ended := make(chan error, 1)
	go func() { ended <- a.listen(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		a.background.Wait()
	})
	return a, "https://" + l.Addr().String()
}

func ask(t *testing.T, config *tls.Config, method, url, body string) (code int, answer string, err error) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

func TestOnlyTheManagerIsAnswered(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	_, url := answering(t, ca)
	foreign := stranger.client(manager)
	foreign.RootCAs = ca.client("").RootCAs
	old := ca.client(manager)
	old.MaxVersion = tls.VersionTLS12
	for name, test := range map[string]struct {
		config *tls.Config
		method string
		path   string
		code   int
		fails  bool
	}{
		"the manager":               {ca.client(manager), http.MethodGet, backup.ReportPath, http.StatusOK, false},
		"another name":              {ca.client("kube-apiserver"), http.MethodGet, backup.ReportPath, http.StatusForbidden, false},
		"another name that asks":    {ca.client("kube-apiserver"), http.MethodPost, backup.TakePath, http.StatusForbidden, false},
		"another name that deletes": {ca.client("kube-apiserver"), http.MethodPost, backup.DeletePath, http.StatusForbidden, false},
		"no certificate":            {ca.client(""), http.MethodGet, backup.ReportPath, 0, true},
		"another CA":                {foreign, http.MethodGet, backup.ReportPath, 0, true},
		"an older TLS":              {old, http.MethodGet, backup.ReportPath, 0, true},
		"another method":            {ca.client(manager), http.MethodPost, backup.ReportPath, http.StatusMethodNotAllowed, false},
		"another path":              {ca.client(manager), http.MethodGet, "/", http.StatusNotFound, false},
		"a member":                  {ca.client(peers), http.MethodGet, backup.ReportPath, http.StatusOK, false},
		"a member that asks":        {ca.client(peers), http.MethodPost, backup.TakePath, http.StatusNotFound, false},
		"a member that writes":      {ca.client(peers), http.MethodPut, backup.ObjectsPath + "20260304T050000Z.json", http.StatusMethodNotAllowed, false},
		"a member without files":    {ca.client(peers), http.MethodGet, backup.ObjectsPath + "20260304T050000Z.json", http.StatusServiceUnavailable, false},
		"a member that leaves":      {ca.client(peers), http.MethodGet, backup.ObjectsPath + "..%2Fetcd.db", http.StatusNotFound, false},
		"the keys":                  {ca.client(peers), http.MethodGet, backup.ObjectsPath + "keys-0123456789abcdef.age", http.StatusNotFound, false},
		"another name's files":      {ca.client("kube-apiserver"), http.MethodGet, backup.ObjectsPath + "20260304T050000Z.json", http.StatusForbidden, false},
	} {
		code, _, err := ask(t, test.config, test.method, url+test.path, "")
		if code != test.code || (err != nil) != test.fails {
			t.Errorf("%s: %d: %v", name, code, err)
		}
	}
}

// Certificates are renewed in their files, first one and then the other.
func TestARenewedCertificateIsShown(t *testing.T) {
	ca := newAuthority(t)
	a, url := answering(t, ca)
	shown := func() int64 {
		t.Helper()
		connection, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), ca.client(manager))
		must(t, err)
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	certificate, key := ca.issue("server", 77, net.IPv4(127, 0, 0, 1))
	if got := shown(); got != 2 {
		t.Errorf("it shows %d", got)
	}
	must(t, os.WriteFile(a.Serving.Certificate, certificate, 0o600))
	if got := shown(); got != 2 {
		t.Errorf("without its key it shows %d", got)
	}
	must(t, os.WriteFile(a.Serving.Key, key, 0o600))
	if got := shown(); got != 77 {
		t.Errorf("it shows %d", got)
	}
	// Another CA of clients counts for the next connection.
	other := newAuthority(t)
	file, err := os.ReadFile(other.file)
	must(t, err)
	must(t, os.WriteFile(ca.file, file, 0o600))
	if _, _, err := ask(t, ca.client(manager), http.MethodGet, url+backup.ReportPath, ""); err == nil {
		t.Error("a client of the old CA is answered")
	}
}

// The manager asks many tenants, and waits for none of their stores.
func TestAStoreThatHangsIsInNobodysWay(t *testing.T) {
	ca := newAuthority(t)
	a, url := answering(t, ca)
	silent := loopback.Listen(t)
	configure(t, a, bucketAt("http://"+silent.Addr().String()))
	for range 2 {
		if code, text, err := ask(t, ca.client(manager), http.MethodGet, url+backup.ReportPath, ""); err != nil || code != http.StatusOK || !strings.Contains(text, `"member":"me"`) {
			t.Errorf("it says %d %s: %v", code, text, err)
		}
		// The first question has the store listed, which does not end while the second one is answered.
		if a.listing.reading.TryLock() {
			t.Error("the store is not listed")
		}
	}
}

func TestSlotsAreAskedFor(t *testing.T) {
	ca := newAuthority(t)
	a, url := answering(t, ca)
	body := func(slot time.Time) string {
		text, err := json.Marshal(backup.TakeRequest{Slot: slot})
		must(t, err)
		return string(text)
	}
	for _, test := range []struct {
		body string
		code int
	}{
		{"", http.StatusBadRequest}, {"{}", http.StatusBadRequest}, {"null", http.StatusBadRequest}, {strings.Repeat(" ", maxBody) + body(noon), http.StatusBadRequest},
		{body(noon.Add(2 * time.Hour)), http.StatusBadRequest}, {body(noon.Add(-25 * time.Hour)), http.StatusBadRequest},
		{body(noon.Add(time.Nanosecond)), http.StatusAccepted}, {body(noon), http.StatusAccepted},
	} {
		if code, text, err := ask(t, ca.client(manager), http.MethodPost, url+backup.TakePath, test.body); err != nil || code != test.code {
			t.Errorf("%.80s: %d %s: %v", test.body, code, text, err)
		}
	}
	if len(a.asked) != 1 || !a.asked[0].Equal(noon) {
		t.Errorf("asked are %v", a.asked)
	}
	for i := range mostAsked {
		code, text, err := ask(t, ca.client(manager), http.MethodPost, url+backup.TakePath, body(noon.Add(-time.Duration(i+1)*time.Minute)))
		if full := i == mostAsked-1; err != nil || full != (code == http.StatusTooManyRequests) {
			t.Errorf("number %d: %d %s: %v", i+2, code, text, err)
		}
	}
}

func TestDeletionsAreAskedFor(t *testing.T) {
	ca := newAuthority(t)
	a, url := answering(t, ca)
	body := func(slot time.Time) string {
		text, err := json.Marshal(backup.DeleteRequest{Slot: slot})
		must(t, err)
		return string(text)
	}
	for _, test := range []struct {
		body string
		code int
	}{
		{"", http.StatusBadRequest}, {"{}", http.StatusBadRequest}, {strings.Repeat(" ", maxBody) + body(noon), http.StatusBadRequest},
		{body(noon.AddDate(-1, 0, 0)), http.StatusAccepted}, {body(noon.AddDate(-1, 0, 0)), http.StatusAccepted},
	} {
		if code, text, err := ask(t, ca.client(manager), http.MethodPost, url+backup.DeletePath, test.body); err != nil || code != test.code {
			t.Errorf("%.80s: %d %s: %v", test.body, code, text, err)
		}
	}
	hourly := session{config: backup.Config{Every: time.Hour}}
	if v := a.view(hourly); len(v.unwanted) != 1 || !v.unwanted[0].Equal(noon.AddDate(-1, 0, 0)) {
		t.Errorf("unwanted are %v", v.unwanted)
	}
	for i := range mostAsked {
		code, text, err := ask(t, ca.client(manager), http.MethodPost, url+backup.DeletePath, body(noon.Add(-time.Duration(i+1)*time.Minute)))
		if full := i == mostAsked-1; err != nil || full != (code == http.StatusTooManyRequests) {
			t.Errorf("number %d: %d %s: %v", i+2, code, text, err)
		}
	}
	// Another member may have on its volume what this one does not have.
	a.listing.at, a.listing.entries = noon, []snapshot.Entry{made(noon.Add(-time.Minute))}
	for ago, want := range map[time.Duration]int{time.Minute: http.StatusAccepted, 2 * mostAsked * time.Minute: http.StatusAccepted} {
		if code, text, err := ask(t, ca.client(manager), http.MethodPost, url+backup.DeletePath, body(noon.Add(-ago))); err != nil || code != want {
			t.Errorf("%v ago: %d %s: %v", ago, code, text, err)
		}
	}
	// The manager says it again while it is so.
	a.Now = func() time.Time { return noon.Add(saidAgain + time.Second) }
	if v := a.view(hourly); len(v.unwanted) != 0 {
		t.Errorf("unwanted are %v still", v.unwanted)
	}
}

func TestAReportIsBounded(t *testing.T) {
	a := newAgent(t.Context(), Options{Member: "me", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for i := range backup.MaxSnapshots + 3 {
		e := made(noon.Add(-time.Duration(i) * time.Hour))
		if i%2 == 0 {
			e.Err = archive.Refuse(archive.Tampered, "%s", strings.Repeat("<\x00\"", 4000))
		}
		a.listing.entries = append(a.listing.entries, e)
	}
	a.failed(ofWork, noon, fmt.Errorf("%s", strings.Repeat("é", 4000)))
	r := a.report()
	body, err := encode(r)
	if err != nil || len(body) > backup.MaxAnswer || len(r.Snapshots) != backup.MaxSnapshots || r.More != 3 || len(r.Problem.Message) > maxMessage {
		t.Errorf("%d bytes, %d snapshots, %d more: %v", len(body), len(r.Snapshots), r.More, err)
	}
	if s := r.Snapshots[0]; s.Reason != "Tampered" || strings.ContainsRune(s.Message, 0) || s.Member != "" {
		t.Errorf("it tells %+v", s)
	}
	if s := r.Snapshots[1]; s.Reason != "" || s.Member != "me" || !s.Verified.IsZero() {
		t.Errorf("it tells %+v", s)
	}
	// Whatever is in it, the newest are told.
	for i := range r.Snapshots {
		r.Snapshots[i].Message = strings.Repeat("x", 5000)
	}
	body, err = encode(r)
	var again backup.Report
	if err != nil || len(body) > backup.MaxAnswer || json.Unmarshal(body, &again) != nil || len(again.Snapshots) == 0 || !again.Snapshots[0].Slot.Equal(noon) || len(again.Snapshots)+again.More != len(r.Snapshots)+r.More {
		t.Errorf("%d bytes, %d snapshots, %d more: %v", len(body), len(again.Snapshots), again.More, err)
	}
}

// A member without data has nothing to survive, and says nothing of its volume.
func TestAReportTellsTheRoomOfTheVolume(t *testing.T) {
	volume := t.TempDir()
	a := newAgent(t.Context(), Options{DataDir: filepath.Join(volume, "data"), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	a.lookAtVolume()
	if r := a.report(); r.Volume != nil {
		t.Errorf("without data it tells %+v", r.Volume)
	}
	for name, size := range map[string]int64{"wal/0000000000000000-0000000000000000.wal": 1 << 20, "snap/db": 1 << 30} {
		path := filepath.Join(volume, "data", "member", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Truncate(path, size)) // It takes no room itself.
	}
	a.lookAtVolume()
	if r := a.report(); r.Volume == nil || r.Volume.FreeBytes <= 0 || r.Volume.SurvivorBytes != 2<<30+1<<20+backup.LogBytes {
		t.Errorf("it tells %+v", r.Volume)
	}
}

// The agent reads the whole last file of the log to find its end. It does so only while etcd has no leader.
func TestAReportTellsWhereTheLogEndsWithoutALeader(t *testing.T) {
	dir := t.TempDir()
	w, err := wal.Create(zap.NewNop(), filepath.Join(dir, "member", "wal"), nil)
	must(t, err)
	must(t, w.Save(raftpb.HardState{Term: 3}, []raftpb.Entry{{Term: 2, Index: 1}, {Term: 3, Index: 2}}))
	must(t, w.Close())
	must(t, os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "member", "snap", "db"), nil, 0o600))
	a := newAgent(t.Context(), Options{DataDir: dir, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	for _, leaderless := range []bool{false, true, false} {
		a.setLeaderless(leaderless)
		a.lookAtVolume()
		var term, index uint64
		if leaderless {
			term, index = 3, 2
		}
		if r := a.report(); r.Volume == nil || r.Volume.LogTerm != term || r.Volume.LogIndex != index {
			t.Errorf("without a leader (%t) it tells %+v", leaderless, r.Volume)
		}
	}
}

// A refusal is told as long as nothing newer is good.
func TestWhatATrialRefusedIsToldUntilANewerOneIsVerified(t *testing.T) {
	a := newAgent(t.Context(), Options{Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	a.refused(noon, archive.Refuse(archive.HashDiffers, "it differs"))
	for name, test := range map[string]struct {
		entries []snapshot.Entry
		told    bool
	}{
		"the newest":               {[]snapshot.Entry{made(noon), verified(made(noon.Add(-time.Hour)))}, true},
		"a newer one is not tried": {[]snapshot.Entry{made(noon.Add(time.Hour)), made(noon)}, true},
		"a newer one is verified":  {[]snapshot.Entry{verified(made(noon.Add(time.Hour))), made(noon)}, false},
		"it is gone":               {nil, false},
	} {
		if p := a.problem(test.entries); (p != nil) != test.told || test.told && (p.Reason != "HashDiffers" || !p.Slot.Equal(noon) || !p.Since.Equal(noon)) {
			t.Errorf("%s: it tells %+v", name, p)
		}
	}
	// With other keys it may be good.
	a.forgetRefusals("other")
	if p := a.problem([]snapshot.Entry{made(noon)}); p != nil {
		t.Errorf("it tells %+v", p)
	}
}

// A restore in place does not begin where the store cannot be read, whatever else is wrong.
func TestAReportTellsThatTheStoreCannotBeRead(t *testing.T) {
	ca := newAuthority(t)
	a, url := answering(t, ca)
	var gone atomic.Bool
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchBucket</Code></Error>")
			return
		}
		_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
	}))
	t.Cleanup(bucket.Close)
	configure(t, a, bucketAt(bucket.URL))
	a.failed(ofConfig, time.Time{}, errors.New("no member of etcd is healthy"))
	unread := func() *backup.Problem {
		code, text, err := ask(t, ca.client(manager), http.MethodGet, url+backup.ReportPath, "")
		var r backup.Report
		if err != nil || code != http.StatusOK || json.Unmarshal([]byte(text), &r) != nil || r.Problem.Message != "no member of etcd is healthy" {
			t.Errorf("it says %d %s: %v", code, text, err)
		}
		return r.Unread
	}
	for _, isGone := range []bool{false, true, false} {
		gone.Store(isGone)
		a.listing.began = time.Time{}
		unread()
		a.background.Wait() // The question has the store listed, and does not wait for it.
		if p := unread(); (p != nil) != isGone || isGone && (p.Field != "store.s3.bucket" || !strings.Contains(p.Message, "there is no bucket snapshots")) {
			t.Errorf("where the bucket is gone (%t) it tells %+v", isGone, p)
		}
	}
}

// configure gives an agent its files, for a store.
func configure(t *testing.T, a *agent, kept backup.Store) {
	t.Helper()
	file, err := backup.Encode(backup.Config{
		Every: time.Hour, Keep: backup.Keep{Last: 3}, Recipients: []string{"age1"}, Store: kept, KeysID: "abcdef01",
	})
	must(t, err)
	for name, content := range map[string]string{
		backup.ConfigFile: string(file), backup.KeysFile: "sealed", backup.KeyFile: strings.Repeat("k", 32), backup.AccessKeyIDFile: "a", backup.SecretAccessKeyFile: "b",
		backup.IdentityFile: "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX",
	} {
		must(t, os.WriteFile(filepath.Join(a.ConfigDir, name), []byte(content), 0o600))
	}
}

// After all members restarted without a quorum, the manager asks whose volume has a snapshot.
func TestAnOwnVolumeIsListedWithoutEtcd(t *testing.T) {
	a := newAgent(t.Context(), Options{Member: "me", ConfigDir: t.TempDir(), StoreDir: t.TempDir(), Client: snapshot.TLSFiles{CA: "none"}, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	configure(t, a, backup.Store{PerMember: true})
	a.round(t.Context())
	if r := a.report(); !r.Own || !r.Listed.Equal(noon) || r.Problem == nil || r.KeysID != "abcdef01" {
		t.Errorf("it tells %+v", r)
	}
}

func bucketAt(endpoint string) backup.Store {
	return backup.Store{S3: &backup.S3{Endpoint: endpoint, Bucket: "snapshots"}}
}
