package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// topologyKey is the label of nodes by which a volume says where it is.
const topologyKey = driverName + "/node"

// registrationService tells kubelet of the driver.
type registrationService struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r registrationService) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driverName, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (registrationService) NotifyRegistrationStatus(_ context.Context, told *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !told.PluginRegistered {
		return nil, status.Errorf(codes.FailedPrecondition, "kubelet refused the driver: %s", told.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// identity says what the driver can do.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(kind csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: kind}}}
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

// controller makes and deletes the volumes of its node.
type controller struct {
	csi.UnimplementedControllerServer
	node    string
	volumes volumes
}

func (controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}},
	}}}, nil
}

func (c controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	size, err := sizeOf(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if err := c.volumes.create(r.GetName(), size); err != nil {
		return nil, status.Errorf(codes.Internal, "make volume %s: %s", r.GetName(), err)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: r.GetName(), CapacityBytes: size, AccessibleTopology: []*csi.Topology{{Segments: map[string]string{topologyKey: c.node}}},
	}}, nil
}

func (c controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := c.volumes.remove(r.GetVolumeId()); err != nil {
		return nil, status.Errorf(codes.Internal, "remove volume %s: %s", r.GetVolumeId(), err)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// sizeOf is the size that a volume has to have, in bytes.
func sizeOf(capacity *csi.CapacityRange) (int64, error) {
	size := capacity.GetRequiredBytes()
	if size <= 0 {
		return 0, status.Error(codes.InvalidArgument, "no size is asked for")
	}
	if size > largest {
		return 0, status.Errorf(codes.OutOfRange, "the storage has no more than %d bytes for a volume", int64(largest))
	}
	return size, nil
}

// nodeService mounts and grows the volumes of its node.
type nodeService struct {
	csi.UnimplementedNodeServer
	node    string
	volumes volumes
}

func (n nodeService) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.node, AccessibleTopology: &csi.Topology{Segments: map[string]string{topologyKey: n.node}}}, nil
}

func (nodeService) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	capability := func(kind csi.NodeServiceCapability_RPC_Type) *csi.NodeServiceCapability {
		return &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}}}
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{
		capability(csi.NodeServiceCapability_RPC_EXPAND_VOLUME), capability(csi.NodeServiceCapability_RPC_GET_VOLUME_STATS),
	}}, nil
}

func (n nodeService) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := n.volumes.publish(r.GetVolumeId(), r.GetTargetPath()); err != nil {
		return nil, status.Errorf(codes.Internal, "mount volume %s: %s", r.GetVolumeId(), err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (nodeService) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unpublish(r.GetTargetPath()); err != nil {
		return nil, status.Errorf(codes.Internal, "unmount volume %s: %s", r.GetVolumeId(), err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (n nodeService) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	size, err := sizeOf(r.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if err := n.volumes.grow(r.GetVolumeId(), size); err != nil {
		return nil, status.Errorf(codes.Internal, "grow volume %s: %s", r.GetVolumeId(), err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
}

// NodeGetVolumeStats tells kubelet, and through it whoever may read its statistics, what the kernel says of a volume.
func (nodeService) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	found := unix.Statfs_t{}
	if err := unix.Statfs(r.GetVolumePath(), &found); err != nil {
		return nil, status.Errorf(codes.NotFound, "look at %s: %s", r.GetVolumePath(), err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{
		Unit: csi.VolumeUsage_BYTES, Total: int64(found.Blocks) * found.Bsize, Available: int64(found.Bavail) * found.Bsize,
		Used: int64(found.Blocks-found.Bfree) * found.Bsize,
	}}}, nil
}
