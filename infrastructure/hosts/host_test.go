package hosts

import (
	"context"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-on-kube/cluster-api-provider-kok/infrastructure/ssh"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/writes"
)

// ending is a connection over which every command ends with this status.
type ending int

func (e ending) Run(context.Context, ssh.Command) (ssh.Result, error) {
	return ssh.Result{ExitStatus: int(e)}, nil
}

func TestTheLogHasWhatChangedTheHost(t *testing.T) {
	change := func(h *Host, ctx context.Context) error { return h.Change(ctx, "systemctl", "stop", "kubelet") }
	for name, test := range map[string]struct {
		status ending
		do     func(h *Host, ctx context.Context) error
		want   []string
		fails  bool
	}{
		"a command":         {do: change, want: []string{`"command"="systemctl stop kubelet"`}},
		"one that failed":   {status: 1, do: change, fails: true},
		"one that may":      {status: 1, do: func(h *Host, ctx context.Context) error { return h.TryChange(ctx, "ip", "link", "delete", "cni0") }, want: []string{`"command"="ip link delete cni0"`}},
		"one with input":    {do: func(h *Host, ctx context.Context) error { return h.ChangeBy(ctx, []byte("secret"), "iptables-restore") }, want: []string{`"command"="iptables-restore"`}},
		"a file":            {do: func(h *Host, ctx context.Context) error { return h.Write(ctx, "/etc/file", []byte("secret")) }, want: []string{`"command"="write /etc/file"`}},
		"a removal":         {do: func(h *Host, ctx context.Context) error { return h.Remove(ctx, "/etc/file") }, want: []string{`"command"="rm -rf --one-file-system -- /etc/file"`}},
		"what is unmounted": {do: func(h *Host, ctx context.Context) error { return h.Unmount(ctx, []string{"/mnt"}) }, want: []string{`"command"="umount -- /mnt"`}},
		"nothing of reads":  {do: func(h *Host, ctx context.Context) error { _, err := h.Run(ctx, "cat", "/etc/hostname"); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: writes.Verbosity})
			err := test.do(New(test.status, "root"), ctrl.LoggerInto(t.Context(), logr.New(log.GetSink())))
			if (err != nil) != test.fails {
				t.Fatalf("it ended with %v", err)
			}
			for i, want := range test.want {
				test.want[i] = `"level"=2 "msg"="Changed the host" ` + want
			}
			if !slices.Equal(lines, test.want) {
				t.Errorf("the log has %q, want %q", lines, test.want)
			}
		})
	}
}
