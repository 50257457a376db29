package names

// Steps of a reconcile besides the components, which are steps of their own names.
const (
	StepHistory       = "history"
	StepKeyMaterial   = "key-material"
	StepVersion       = "version"
	StepPorts         = "ports"
	StepEndpoint      = "endpoint"
	StepRestore       = "restore"
	StepBackup        = "backup"
	StepCertificates  = "certificates"
	StepKubeconfig    = "kubeconfig"
	StepLoadBalancer  = "load-balancer"
	StepTenantObjects = "tenant-objects"
	StepAddons        = "addons"
)
