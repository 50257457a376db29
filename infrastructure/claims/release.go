package claims

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/kube-on-kube/cluster-api-provider-kok/api/infrastructure/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/internal/errortext"
)

// Release ends the claim of a host, and begins the quarantine; nil for none. A quarantine that a person began stays until that
// person ends it. Only then is the host cleaned up, because the person may be working on it.
func (c *Claims) Release(ctx context.Context, host *infrav1.IDCHost, quarantine *infrav1.HostQuarantine) error {
	if quarantine != nil {
		quarantine.Reason = errortext.Short(quarantine.Reason, maxReason)
	}
	err := c.patchHost(ctx, host, func() {
		host.Spec.Claim = nil
		if quarantine != nil && byPerson(host) {
			host.Spec.UncleanInstanceID = quarantine.InstanceID
			quarantine = &infrav1.HostQuarantine{
				Since: host.Spec.Quarantine.Since, Reason: errortext.Short(host.Spec.Quarantine.Reason+"; "+quarantine.Reason, maxReason),
			}
		}
		if quarantine != nil {
			host.Spec.Quarantine = quarantine
		}
		controllerutil.RemoveFinalizer(host, infrav1.IDCHostFinalizer)
	})
	if err != nil {
		return fmt.Errorf("release IDCHost %s: %w", host.Name, err)
	}
	return nil
}

// byPerson reports whether a person put a claimed host into quarantine. The controller itself does so only when it
// releases the host.
func byPerson(host *infrav1.IDCHost) bool {
	return host.Spec.Quarantine != nil && host.Spec.Quarantine.InstanceID == ""
}

// BeginCleanUp begins the quarantine of a host whose last machine went without a clean-up. The quarantine lasts until the host
// is clean.
func (c *Claims) BeginCleanUp(ctx context.Context, host *infrav1.IDCHost) error {
	return c.quarantine(ctx, host, func() {
		host.Spec.Quarantine = &infrav1.HostQuarantine{
			Reason: "its last machine went without a clean-up while the host was away", Since: metav1.Now(), InstanceID: host.Spec.UncleanInstanceID,
		}
		host.Spec.UncleanInstanceID = ""
	})
}

// EndCleanUp ends the quarantine that BeginCleanUp or Release began, and frees the host. When the clean-up failed, another
// quarantine begins, which a person ends.
func (c *Claims) EndCleanUp(ctx context.Context, host *infrav1.IDCHost, failed error) error {
	return c.quarantine(ctx, host, func() {
		before := host.Spec.Quarantine
		host.Spec.Quarantine = nil
		if failed != nil {
			host.Spec.Quarantine = &infrav1.HostQuarantine{Since: before.Since, Reason: errortext.Short(fmt.Sprintf("the host is back, but its clean-up failed: %v", failed), maxReason)}
		}
	})
}

func (c *Claims) quarantine(ctx context.Context, host *infrav1.IDCHost, change func()) error {
	if err := c.patchHost(ctx, host, change); err != nil {
		return fmt.Errorf("write the quarantine of IDCHost %s: %w", host.Name, err)
	}
	return nil
}

// maxReason is the length of a quarantine's reason, as the schema has it.
const maxReason = 4096
