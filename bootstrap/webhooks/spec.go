package webhooks

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
	"github.com/kube-on-kube/cluster-api-provider-kok/bootstrap/cloudinit"
)

// validateSpec has the rules for the specs of KOKConfigs and KOKConfigTemplates.
func validateSpec(spec bootstrapv1.KOKConfigSpec, path *field.Path) field.ErrorList {
	errs := validateKubelet(spec.Kubelet, path.Child("kubelet"))
	errs = append(errs, validateSoftware(spec.Software, path.Child("software"))...)
	errs = append(errs, validateMirrors(spec.RegistryMirrors, path.Child("registryMirrors"))...)
	errs = append(errs, validateProxy(spec.Proxy, path.Child("proxy"))...)
	errs = append(errs, validateFiles(spec.Files, path.Child("files"))...)
	errs = append(errs, validateUsers(spec.Users, path.Child("users"))...)
	for i, server := range spec.NTP.Servers {
		if !isHost(server) {
			errs = append(errs, field.Invalid(path.Child("ntp", "servers").Index(i), server, "must be a DNS name or an IP address"))
		}
	}
	return errs
}

// check adds the field to an error of a rule.
func check(err error, path *field.Path, value any) field.ErrorList {
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, err.Error())}
}

func validateSoftware(spec bootstrapv1.SoftwareSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, download := range spec.Downloads {
		at := path.Child("downloads").Index(i)
		errs = append(errs, validatePath(download.Path, at.Child("path"))...)
		for j, url := range download.URLs {
			errs = append(errs, check(cloudinit.CheckURL(url), at.Child("urls").Index(j), url)...)
		}
	}
	return errs
}

func validateMirrors(mirrors []bootstrapv1.RegistryMirror, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, mirror := range mirrors {
		at := path.Index(i)
		errs = append(errs, check(cloudinit.CheckRegistry(mirror.Registry), at.Child("registry"), mirror.Registry)...)
		for j, endpoint := range mirror.Endpoints {
			errs = append(errs, check(cloudinit.CheckURL(endpoint.URL), at.Child("endpoints").Index(j).Child("url"), endpoint.URL)...)
		}
	}
	return errs
}

func validateProxy(spec bootstrapv1.ProxySpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, proxy := range []struct{ name, url string }{{"http", spec.HTTP}, {"https", spec.HTTPS}} {
		if proxy.url != "" {
			errs = append(errs, check(cloudinit.CheckURL(proxy.url), path.Child(proxy.name), proxy.url)...)
		}
	}
	for i, host := range spec.No {
		if strings.ContainsAny(host, " ,;\"'\\`$\n\t") {
			errs = append(errs, field.Invalid(path.Child("no").Index(i), host, "must be one host, domain or CIDR"))
		}
	}
	if len(spec.No) > 0 && spec.HTTP == "" && spec.HTTPS == "" {
		errs = append(errs, field.Required(path.Child("https"), "no is set; set http or https too, or remove no"))
	}
	return errs
}

func validateFiles(files []bootstrapv1.File, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, file := range files {
		at := path.Index(i)
		errs = append(errs, validatePath(file.Path, at.Child("path"))...)
		if file.Content != nil {
			if _, err := cloudinit.Decode(file.Encoding, []byte(*file.Content)); err != nil {
				errs = append(errs, field.Invalid(at.Child("content"), field.OmitValueType{}, fmt.Sprintf("encoding is %s, but the content %v", file.Encoding, err)))
			}
		}
	}
	return errs
}

func validatePath(value string, path *field.Path) field.ErrorList {
	if err := cloudinit.CheckPath(value); err != nil {
		return check(err, path, value)
	}
	if cloudinit.ReservedPath(value) {
		return field.ErrorList{field.Invalid(path, value, "belongs to the controller; choose another")}
	}
	return nil
}

func validateUsers(users []bootstrapv1.User, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, user := range users {
		for j, key := range user.SSHAuthorizedKeys {
			if strings.ContainsAny(key, "\r\n") || len(strings.Fields(key)) < 2 {
				errs = append(errs, field.Invalid(path.Index(i).Child("sshAuthorizedKeys").Index(j), key,
					"must be one public key on one line, for example ssh-ed25519 AAAA... name"))
			}
		}
	}
	return errs
}

func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return len(validation.IsDNS1123Subdomain(host)) == 0
}
