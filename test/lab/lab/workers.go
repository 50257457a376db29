package lab

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/artifacts"
	"github.com/kube-on-kube/cluster-api-provider-kok/test/lab/host"
)

// workerUser may log in to workers with the lab's key, and become root with sudo.
const workerUser = "kok"

const hostKeyFile = "/etc/ssh/ssh_host_ed25519_key"

// Access is how a worker is reached by SSH.
type Access struct {
	Address string
	User    string
	// PrivateKey of the user, in OpenSSH's format.
	PrivateKey []byte
	// HostKey is the worker's public key, in the format of authorized_keys.
	HostKey string
}

// AddWorker adds a machine to the data centre that is no node of the host cluster: it has a container runtime, kubelet,
// cloud-init, an SSH server whose host key the lab knows, and the programs, which replace those of the same name. With an
// owner it is for that program alone, which removes it with RemoveOwned. When it fails or is interrupted, the lab has the hosts
// that it had before.
func (l *Lab) AddWorker(ctx context.Context, owner string, programs []string, progress func(string)) (*host.Host, error) {
	return l.add(ctx, newHost{group: "worker", owner: owner}, progress, func(ctx context.Context, h *host.Host, _ *artifacts.Set) error {
		if err := l.admit(h); err != nil {
			return err
		}
		for _, program := range programs {
			content, err := os.ReadFile(program)
			if err != nil {
				return err
			}
			if err := h.WriteFile("/usr/local/bin/"+filepath.Base(program), content, 0o755); err != nil {
				return err
			}
		}
		if err := h.Boot(ctx); err != nil {
			return err
		}
		if err := h.WaitContainerd(ctx); err != nil {
			return err
		}
		// A host that lets nobody in is asked again only after a while.
		if err := h.WaitLogin(ctx); err != nil {
			return err
		}
		progress(h.Name + " booted")
		return nil
	})
}

// AddBare adds a worker that has nothing but what its distribution brings, and what docs/data-centre-hosts.md asks for: what
// makes it a node comes with a Machine. System is one of artifacts.BareSystems. All else is as AddWorker does it.
func (l *Lab) AddBare(ctx context.Context, owner, system string, progress func(string)) (*host.Host, error) {
	return l.add(ctx, newHost{group: "worker", owner: owner, system: system}, progress, func(ctx context.Context, h *host.Host, _ *artifacts.Set) error {
		if err := l.admit(h); err != nil {
			return err
		}
		if err := h.Boot(ctx); err != nil {
			return err
		}
		if err := h.WaitLogin(ctx); err != nil {
			return err
		}
		progress(h.Name + " booted, with " + system + " alone")
		return nil
	})
}

// admit lets the lab's key in as workerUser, and gives the worker a host key.
func (l *Lab) admit(h *host.Host) error {
	user, err := ensureKey(filepath.Join(l.state, "ssh", "id_ed25519"))
	if err != nil {
		return err
	}
	server, err := ensureKey(l.hostKey(h))
	if err != nil {
		return err
	}
	public, err := publicKey(user)
	if err != nil {
		return err
	}
	hostPublic, err := publicKey(server)
	if err != nil {
		return err
	}
	const home = "/home/" + workerUser
	for _, file := range []struct {
		path, content string
		mode          fs.FileMode
	}{
		{hostKeyFile, string(server), 0o600},
		{hostKeyFile + ".pub", hostPublic + "\n", 0o644},
		{"/etc/sudoers.d/" + workerUser, workerUser + " ALL=(ALL) NOPASSWD:ALL\n", 0o440},
		// sshd accepts keys that root keeps, and so the user needs no home that is written before there is a user.
		{"/etc/ssh/authorized_keys/" + workerUser, public + "\n", 0o644},
		// Its key is known. cloud-init makes another only for an instance that it does not know.
		{"/var/lib/cloud/instances/iid-datasource-none/sem/config_ssh", "", 0o644},
		{"/etc/ssh/sshd_config.d/lab.conf", "AuthorizedKeysFile /etc/ssh/authorized_keys/%u\nPasswordAuthentication no\nPermitRootLogin no\n", 0o644},
		{"/etc/sysusers.d/lab.conf", fmt.Sprintf("u %s - \"Administrator\" %s /bin/bash\n", workerUser, home), 0o644},
		{"/etc/tmpfiles.d/lab.conf", fmt.Sprintf("d %s 0750 %s %s -\n", home, workerUser, workerUser), 0o644},
	} {
		if err := h.WriteFile(file.path, []byte(file.content), file.mode); err != nil {
			return err
		}
	}
	if h.System != "" {
		return nil
	}
	return h.Symlink("/lib/systemd/system/containerd.service", "/etc/systemd/system/multi-user.target.wants/containerd.service")
}

// LetIn lets the lab's key in on a node of the host cluster, as on a worker, for as long as the host is there: somebody
// may take it for a worker.
func (l *Lab) LetIn(ctx context.Context, name string) (*Access, error) {
	err := l.locked(ctx, func() error {
		h, err := l.Host(name)
		if err != nil {
			return err
		}
		if err := l.admit(h); err != nil {
			return err
		}
		for _, argv := range [][]string{
			{"systemd-sysusers"}, {"systemd-tmpfiles", "--create", "/etc/tmpfiles.d/lab.conf"},
			{"systemctl", "unmask", "ssh.service"}, {"systemctl", "start", "ssh.service"},
		} {
			if _, err := h.Exec(ctx, nil, argv...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.WorkerAccess(name)
}

func (l *Lab) hostKey(h *host.Host) string { return filepath.Join(l.state, "ssh", h.Name) }

// WorkerAccess is how a worker is reached, or a node that LetIn was called for.
func (l *Lab) WorkerAccess(name string) (*Access, error) {
	h, err := l.Host(name)
	if err != nil {
		return nil, err
	}
	server, err := os.ReadFile(l.hostKey(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("host %s is no worker: it has no SSH server", name)
	}
	if err != nil {
		return nil, err
	}
	user, err := os.ReadFile(filepath.Join(l.state, "ssh", "id_ed25519"))
	if err != nil {
		return nil, err
	}
	public, err := publicKey(server)
	return &Access{Address: h.Address.String(), User: workerUser, PrivateKey: user, HostKey: public}, err
}

// ensureKey reads a private key, or makes it.
func ensureKey(path string) ([]byte, error) {
	if data, err := os.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(crypto.PrivateKey(private), "")
	if err != nil {
		return nil, err
	}
	data := pem.EncodeToMemory(block)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return data, os.WriteFile(path, data, 0o600)
}

// publicKey is the public part of a private key, as a line of authorized_keys.
func publicKey(private []byte) (string, error) {
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return "", fmt.Errorf("read the lab's SSH key: %w", err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), nil
}
