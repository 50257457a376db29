// Package wanted is what the manager tells kok-node-keys: what the keys of a node have to be.
package wanted

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
)

// Files in the folder with what is wanted.
const (
	TrustedFile = "trusted.crt"
	SignerFile  = "signer.crt"
	OrderFile   = "order"
)

// Wanted is what the keys of a node have to be.
type Wanted struct {
	// Trusted are the certificates of all CAs that the node has to trust, and of no other, as PEM.
	Trusted []byte
	// Signer is the certificate of the CA that has to have signed kubelet's certificates, as PEM; empty when any is good.
	Signer []byte
	// Order says whether a node has come further already.
	Order Order
}

// Hash names what is wanted.
func (w Wanted) Hash() string {
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n%d\n%s%s", w.Order, len(w.Trusted), w.Trusted, w.Signer)
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// Files are the files that say what is wanted.
func (w Wanted) Files() map[string]string {
	files := map[string]string{TrustedFile: string(w.Trusted), OrderFile: w.Order.String()}
	if len(w.Signer) > 0 {
		files[SignerFile] = string(w.Signer)
	}
	return files
}

// Read reads what is wanted from a folder. It fails unless that has the hash.
func Read(folder, hash string) (Wanted, error) {
	w, order := Wanted{}, []byte(nil)
	for name, into := range map[string]*[]byte{TrustedFile: &w.Trusted, SignerFile: &w.Signer, OrderFile: &order} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil && (name != SignerFile || !errors.Is(err, fs.ErrNotExist)) {
			return Wanted{}, fmt.Errorf("read what is wanted: %w", err)
		}
		*into = content
	}
	var err error
	if w.Order, err = ParseOrder(string(order)); err != nil {
		return Wanted{}, fmt.Errorf("%s: %w", OrderFile, err)
	}
	if got := w.Hash(); got != hash {
		return Wanted{}, fmt.Errorf("%s has what is wanted in another phase: its hash is %s, and that of this pod %s", folder, got, hash)
	}
	if _, _, err := w.Certificates(); err != nil {
		return Wanted{}, err
	}
	return w, nil
}

// Certificates are the CAs to trust, and the signer; nil when any is good.
func (w Wanted) Certificates() (trusted []*x509.Certificate, signer *x509.Certificate, err error) {
	if trusted, err = certutil.ParseCertsPEM(w.Trusted); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", TrustedFile, err)
	}
	if len(w.Signer) == 0 {
		return trusted, nil, nil
	}
	signers, err := certutil.ParseCertsPEM(w.Signer)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", SignerFile, err)
	}
	if len(signers) != 1 {
		return nil, nil, fmt.Errorf("%s has %d certificates: one CA has to be the signer", SignerFile, len(signers))
	}
	for _, ca := range trusted {
		if ca.Equal(signers[0]) {
			return trusted, signers[0], nil
		}
	}
	return nil, nil, fmt.Errorf("the CA in %s is not in %s: nodes would not trust what it signs", SignerFile, TrustedFile)
}
