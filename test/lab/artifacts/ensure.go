package artifacts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Set is a complete set of artifacts in the cache.
type Set struct {
	Versions Versions
	// RootFS is the root file system that hosts' disks are laid over. Nothing may write into it.
	RootFS string
	// ContainerdRoot is a stopped containerd's /var/lib/containerd with all images unpacked. Hosts get a copy: blobs and
	// layers may be hard links, for containerd writes them once under a temporary name and containers see layers through
	// an overlay, but databases (*.db) must be copied.
	ContainerdRoot string
	// Images are what ContainerdRoot has.
	Images []Image
	// WorkerImages are those of them that pods on tenants' workers ask for.
	WorkerImages []Image
	// ProvisionerImage is the name of the image that makes local volumes on the host cluster's nodes.
	ProvisionerImage string
	// CertManager is the file with cert-manager's manifests.
	CertManager string
	// Flannel is the file with the manifests of tenants' pod network.
	Flannel string
	// Kubectl, Clusterctl, Kustomize, Etcd and Etcdctl are programs for this machine.
	Kubectl, Clusterctl, Kustomize, Etcd, Etcdctl string

	kubernetes map[string]string
}

// BinDir returns the folder with the Kubernetes programs of a version, the host cluster's or a tenant's.
func (s *Set) BinDir(version string) (string, error) {
	dir, ok := s.kubernetes[version]
	if !ok {
		return "", fmt.Errorf("kubernetes %s is not among the lab's versions %v", version, slices.Sorted(maps.Keys(s.kubernetes)))
	}
	return dir, nil
}

// HostProgram returns the file of a program that hosts have in /usr/local/bin.
func (s *Set) HostProgram(name string) (string, error) {
	if name == "etcd" {
		return s.Etcd, nil
	}
	if !slices.Contains(hostPrograms, name) {
		return "", fmt.Errorf("hosts have no program %s", name)
	}
	dir, err := s.BinDir(s.Versions.Host)
	return filepath.Join(dir, name), err
}

// Ensure builds what is missing in the cache folder and returns the complete set. It can be interrupted and repeated
// at any time; a second process waits for the first. progress is called with each step that takes long.
func Ensure(ctx context.Context, cacheDir string, progress func(string)) (*Set, error) {
	return EnsureVersions(ctx, cacheDir, DefaultVersions(), progress)
}

// EnsureVersions is Ensure for other versions than the default ones.
func EnsureVersions(ctx context.Context, cacheDir string, v Versions, progress func(string)) (*Set, error) {
	cache, unlock, err := openCache(cacheDir, progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := installPackages(ctx, maps.Keys(machinePackages), progress); err != nil {
		return nil, err
	}

	var b bins
	var debian string
	group, groupCtx := errgroup.WithContext(ctx)
	// Debian's installation waits for the network and one processor, compilation for the processors.
	group.Go(func() (err error) {
		debian, err = buildDebian(groupCtx, cache, v.Debian, progress)
		return err
	})
	group.Go(func() (err error) {
		b, err = buildPrograms(groupCtx, cache, v, progress)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return assemble(ctx, cache, v, b, debian, progress)
}

// openCache makes the cache folder, and waits until no other process works in it.
func openCache(cacheDir string, progress func(string)) (cache string, unlock func(), err error) {
	if cache, err = filepath.Abs(cacheDir); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", nil, fmt.Errorf("make the cache folder: %w", err)
	}
	unlock, err = lock(cache, progress)
	return cache, unlock, err
}

// inCache builds something in the cache folder while no other process works in it.
func inCache(ctx context.Context, cacheDir string, progress func(string), build func(cache, goVersion string) error) error {
	cache, unlock, err := openCache(cacheDir, progress)
	if err != nil {
		return err
	}
	defer unlock()
	goVersion, err := goToolVersion(ctx)
	if err != nil {
		return err
	}
	return build(cache, goVersion)
}

// buildPrograms compiles one recipe after the other: each uses all processors.
func buildPrograms(ctx context.Context, cache string, v Versions, progress func(string)) (b bins, err error) {
	goVersion, err := goToolVersion(ctx)
	if err != nil {
		return b, err
	}
	if b.pause, err = buildPause(ctx, cache); err != nil {
		return b, err
	}
	b.kubernetes = map[string]string{}
	for _, version := range slices.Compact(slices.Sorted(slices.Values(append([]string{v.Host}, v.Tenants...)))) {
		// The same of each version: any may be the host cluster's, and images stay what they are.
		r, err := kubernetesRecipe(version, hostPrograms...)
		if err != nil {
			return b, err
		}
		if b.kubernetes[version], err = r.build(ctx, cache, goVersion, progress); err != nil {
			return b, err
		}
	}
	checkout, err := findCheckout()
	if err != nil {
		return b, err
	}
	if b.provisioner, err = localProvisionerRecipe().build(ctx, cache, goVersion, checkout, progress); err != nil {
		return b, err
	}
	if b.certManager, err = buildCertManager(ctx, cache, goVersion, checkout, v.CertManager, progress); err != nil {
		return b, err
	}
	for _, p := range []struct {
		recipe recipe
		dir    *string
	}{
		{etcdRecipe(v.Etcd), &b.etcd},
		{clusterAPIRecipe(v.ClusterAPI), &b.clusterAPI},
		{kustomizeRecipe(v.Kustomize), &b.kustomize},
		{coreDNSRecipe(v.CoreDNS), &b.coreDNS},
		{flannelRecipe(v.Flannel), &b.flannel},
		{flannelPluginRecipe(v.FlannelPlugin), &b.flannelPlugin},
		{konnectivityRecipe(v.Konnectivity), &b.konnectivity},
	} {
		if *p.dir, err = p.recipe.build(ctx, cache, goVersion, progress); err != nil {
			return b, err
		}
	}
	return b, nil
}

// assemble makes from programs and Debian what hosts are made of.
func assemble(ctx context.Context, cache string, v Versions, b bins, debian string, progress func(string)) (*Set, error) {
	host := b.kubernetes[v.Host]
	var programs []string
	for _, name := range hostPrograms {
		programs = append(programs, filepath.Join(host, name))
	}
	programs = append(programs, filepath.Join(b.etcd, "etcd"), filepath.Join(b.etcd, "etcdctl"), filepath.Join(b.etcd, "etcdutl"))
	root, err := buildRoot(ctx, cache, debian, programs)
	if err != nil {
		return nil, err
	}
	b.debian = debian
	tenantImages, err := b.tenantImages(v)
	if err != nil {
		return nil, err
	}
	images := append(b.images(v), tenantImages...)
	s := &Set{
		Versions: v, RootFS: root, kubernetes: b.kubernetes,
		Kubectl: filepath.Join(host, "kubectl"), Clusterctl: filepath.Join(b.clusterAPI, "clusterctl"),
		Kustomize: filepath.Join(b.kustomize, "kustomize"),
		Images:    images, ProvisionerImage: b.provisionerImage(), WorkerImages: append(tenantImages, b.pauseImage()),
		Etcd: filepath.Join(b.etcd, "etcd"), Etcdctl: filepath.Join(b.etcd, "etcdctl"),
	}
	if s.CertManager, err = renderCertManager(ctx, cache, b.certManager, v.CertManager); err != nil {
		return nil, err
	}
	if s.Flannel, err = renderFlannel(ctx, cache, v); err != nil {
		return nil, err
	}
	s.ContainerdRoot, err = buildStore(ctx, cache, debian, images, progress)
	if err != nil {
		return nil, err
	}
	return s, pruneStores(s.ContainerdRoot, time.Now())
}

// lock keeps a second process from building the same; it ends with this process.
func lock(cache string, progress func(string)) (func(), error) {
	f, err := os.OpenFile(filepath.Join(cache, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the cache's lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		progress("wait for another process that builds into " + cache)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the cache: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
