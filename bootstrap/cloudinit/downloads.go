package cloudinit

import (
	"errors"
	"fmt"
	"regexp"

	bootstrapv1 "github.com/kube-on-kube/cluster-api-provider-kok/api/bootstrap/v1alpha1"
)

var sha256s = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkedDownload is a download as the fetch program takes it, and its mode.
func checkedDownload(field string, download bootstrapv1.Download) (bootstrapv1.Download, error) {
	if err := CheckPath(download.Path); err != nil {
		return download, invalid(field+".path", download.Path, err)
	}
	if ReservedPath(download.Path) {
		return download, invalid(field+".path", download.Path, errors.New("belongs to the controller; choose another"))
	}
	if !sha256s.MatchString(download.SHA256) {
		return download, invalid(field+".sha256", download.SHA256, errors.New("must be 64 hexadecimal digits in lower case"))
	}
	if download.Mode == "" {
		download.Mode = "0755"
	}
	if !octal.MatchString(download.Mode) {
		return download, invalid(field+".mode", download.Mode, errors.New("must be four octal digits, for example 0755"))
	}
	if len(download.URLs) == 0 {
		return download, fmt.Errorf("spec.%s.urls: at least one URL is needed", field)
	}
	for i, address := range download.URLs {
		if err := CheckURL(address); err != nil {
			return download, invalid(fmt.Sprintf("%s.urls[%d]", field, i), address, err)
		}
	}
	return download, nil
}
