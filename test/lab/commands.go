package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/lab"
)

func upCommand(open opener) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use: "up", Short: "Bring the lab up, or go on where an earlier up ended", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error {
			began := time.Now()
			report, err := l.Up(ctx, version, progress(began))
			if err != nil {
				return err
			}
			status, err := l.Status(ctx)
			if err != nil {
				return err
			}
			fmt.Println()
			if err := status.Write(os.Stdout); err != nil {
				return err
			}
			fmt.Printf("\nexport KUBECONFIG=%s\n\n", l.Kubeconfig())
			return report.Write(os.Stdout)
		}),
	}
	cmd.Flags().StringVar(&version, "host-version", "", "Kubernetes version of the host cluster, one of "+strings.Join(artifacts.HostVersions(), ", ")+" (default: the newest)")
	return cmd
}

// progress prints what is being done, with the seconds since the command began.
func progress(began time.Time) func(string) {
	return func(message string) { fmt.Printf("%7.1fs  %s\n", time.Since(began).Seconds(), message) }
}

func downCommand(open opener) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use: "down", Short: "End every process of the lab and remove its networks, mounts and cgroups; disks stay", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error { return l.Down(ctx, purge) }),
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the disks and records too")
	return cmd
}

func statusCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show hosts, nodes and the link between the sites", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error {
			status, err := l.Status(ctx)
			if err != nil {
				return err
			}
			return status.Write(os.Stdout)
		}),
	}
}

func execCommand(open opener) *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec HOST -- COMMAND [ARGUMENT...]", Short: "Run a command in a host; its exit code becomes ours",
		Args: cobra.MinimumNArgs(2),
		RunE: open.run(func(ctx context.Context, l *lab.Lab, args []string) error {
			h, err := l.Host(args[0])
			if err != nil {
				return err
			}
			argv := args[1:]
			if argv[0] == "--" {
				argv = argv[1:]
			}
			if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
				return h.RunTerminal(ctx, os.Stdin, os.Stdout, argv...)
			}
			return h.Run(ctx, os.Stdin, os.Stdout, os.Stderr, argv...)
		}),
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func cutCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "cut", Short: "Cut the link between cloud and idc: open connections hang", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error { return l.Cut(ctx) }),
	}
}

func healCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "heal", Short: "Join cloud and idc again", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error { return l.Heal(ctx) }),
	}
}

func powerOffCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "power-off HOST", Short: "Take a host's power: nothing on it is asked to end", Args: cobra.ExactArgs(1),
		RunE: open.run(func(ctx context.Context, l *lab.Lab, args []string) error { return l.PowerOff(ctx, args[0]) }),
	}
}

func powerOnCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "power-on HOST", Short: "Boot a host from its disk", Args: cobra.ExactArgs(1),
		RunE: open.run(func(ctx context.Context, l *lab.Lab, args []string) error { return l.PowerOn(ctx, args[0]) }),
	}
}

func addHostCommand(open opener) *cobra.Command {
	var worker bool
	var bare string
	var programs []string
	cmd := &cobra.Command{
		Use: "add-host", Short: "Add the next host to the data centre and the host cluster, or a worker for tenants", Args: cobra.NoArgs,
		RunE: open.run(func(ctx context.Context, l *lab.Lab, _ []string) error {
			var h *host.Host
			var err error
			switch {
			case bare != "" && len(programs) > 0:
				return errors.New("--bare and --install exclude each other: a bare host has no programs")
			case bare != "":
				h, err = l.AddBare(ctx, "", bare, progress(time.Now()))
			case worker:
				h, err = l.AddWorker(ctx, "", programs, progress(time.Now()))
			default:
				h, err = l.AddHost(ctx, progress(time.Now()))
			}
			if err == nil {
				fmt.Println(h.Name)
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&worker, "worker", false, "a machine with an SSH server, cloud-init, containerd and kubelet that is no node of the host cluster")
	cmd.Flags().StringVar(&bare, "bare", "", "a worker without containerd, kubelet and all else that comes with its software; the system is "+strings.Join(artifacts.BareSystems(), " or "))
	cmd.Flags().StringSliceVar(&programs, "install", nil, "programs that a worker gets besides, such as kok-apiserver-lb or a kubelet of another version")
	return cmd
}

func removeHostCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "remove-host HOST", Short: "Take away a host that add-host added, with its node and its disk", Args: cobra.ExactArgs(1),
		RunE: open.run(func(ctx context.Context, l *lab.Lab, args []string) error { return l.RemoveHost(ctx, args[0]) }),
	}
}

func kubeconfigCommand(open opener) *cobra.Command {
	var content bool
	cmd := &cobra.Command{
		Use: "kubeconfig", Short: "Print the path of the host cluster's kubeconfig", Args: cobra.NoArgs,
		RunE: open.run(func(_ context.Context, l *lab.Lab, _ []string) error {
			data, err := os.ReadFile(l.Kubeconfig())
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("there is no kubeconfig yet: bring the lab up first: %w", err)
			}
			if err == nil && content {
				_, err = os.Stdout.Write(data)
			} else if err == nil {
				_, err = fmt.Println(l.Kubeconfig())
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&content, "content", false, "print the file itself")
	return cmd
}

func loadImageCommand(open opener) *cobra.Command {
	var hosts []string
	var name string
	cmd := &cobra.Command{
		Use:   "load-image ARCHIVE | load-image --name REFERENCE PROGRAM",
		Short: "Load an image archive, or a static program as an image, into the hosts' container stores",
		Args:  cobra.ExactArgs(1),
		RunE: open.run(func(ctx context.Context, l *lab.Lab, args []string) error {
			if name != "" {
				return l.LoadProgram(ctx, name, args[0], hosts...)
			}
			return l.LoadImage(ctx, args[0], hosts...)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "the argument is a static program: make an image of this name with it as entry point")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "only into these hosts (default: all that have power)")
	return cmd
}

func collectCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use: "collect DIRECTORY", Short: "Write logs of hosts and containers and all objects (no Secret values) into a directory", Args: cobra.ExactArgs(1),
		RunE: open.run(func(ctx context.Context, l *lab.Lab, args []string) error { return l.Collect(ctx, args[0]) }),
	}
}
