package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// trailer is the length of the SHA-256 that etcd puts after the database when it sends a snapshot.
const trailer = sha256.Size

// sector is what the size of a database is a multiple of.
const sector = 512

// window bounds the memory of zstd, in both directions.
const window = 4 << 20

// maxHeader bounds the header of age, which has some 100 bytes for each recipient, and 1.6 kB for one of a hybrid key.
const maxHeader = 128 << 10

// endOfHeader begins the last line of the header of age.
const endOfHeader = "\n---"

// ErrNotWhole says that what etcd sent is not a whole snapshot: the connection ended too early.
var ErrNotWhole = errors.New("etcd did not send a whole snapshot")

// Seal compresses and encrypts what etcd sends, and gives the sizes and hashes of both. It fails where the hash that etcd
// puts at the end is not there: a connection that is cut looks like an end.
func Seal(to io.Writer, plain io.Reader, recipients []age.Recipient) (encrypted, of Sum, err error) {
	out, in := newMeter(to), newChecked()
	sealed, err := age.Encrypt(out, recipients...)
	if err != nil {
		return Sum{}, Sum{}, fmt.Errorf("encrypt a snapshot for %d recipients: %w", len(recipients), err)
	}
	packed, err := zstd.NewWriter(sealed, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithEncoderCRC(true))
	if err != nil {
		return Sum{}, Sum{}, fmt.Errorf("compress a snapshot: %w", err)
	}
	_, err = io.Copy(io.MultiWriter(packed, in), plain)
	if err != nil {
		_ = packed.Close()
		return Sum{}, Sum{}, fmt.Errorf("copy a snapshot: %w", err)
	}
	if err := in.whole(); err != nil {
		_ = packed.Close()
		return Sum{}, Sum{}, err
	}
	if err := errors.Join(packed.Close(), sealed.Close()); err != nil {
		return Sum{}, Sum{}, fmt.Errorf("write a snapshot: %w", err)
	}
	return out.sum(), in.sum(), nil
}

// Extract decrypts and decompresses the object of a manifest. What it writes counts only if it gives no error.
func Extract(to io.Writer, object io.Reader, m Manifest, identities []age.Identity) error {
	// The reader may go one byte beyond the size in the manifest: if that byte is there, the object is too long.
	source := &source{from: io.LimitReader(object, m.Encrypted.Bytes+1), meter: newMeter(io.Discard)}
	sink := &sink{to: to}
	plain := newChecked()
	failed := extract(io.MultiWriter(sink, plain), source, m, identities)
	if sink.err != nil {
		return fmt.Errorf("write what is in %s: %w", m.Object, sink.err)
	}
	// The rest tells why it failed.
	if source.err == nil {
		_, _ = io.Copy(io.Discard, source)
	}
	var none *age.NoIdentityMatchError
	switch got := source.meter.sum(); {
	case source.err != nil:
		return fmt.Errorf("read %s: %w", m.Object, source.err)
	case got.Bytes < m.Encrypted.Bytes:
		return Refuse(Truncated, "%s has %d bytes, and its manifest says %d: %s", m.Object, got.Bytes, m.Encrypted.Bytes, takeAnother)
	case got != m.Encrypted:
		return Refuse(Tampered, "%s is not what was written, for its SHA-256 is not the one that its manifest has: %s", m.Object, takeAnother)
	case errors.As(failed, &none):
		return Refuse(KeyMissing, "none of the %d keys that are given opens %s: give the age key of the tenant or of one of the recipients that the control plane had at %s", len(identities), m.Object, m.Taken.Format("2006-01-02 15:04 MST"))
	case failed != nil:
		return Refuse(Tampered, "%s cannot be unpacked (%v): %s", m.Object, failed, takeAnother)
	case plain.sum() != m.Plain:
		return Refuse(Tampered, "what is in %s is not what its manifest says: %s", m.Object, takeAnother)
	}
	if err := plain.whole(); err != nil {
		return Refuse(Tampered, "what is in %s does not have etcd's own hash: %s", m.Object, takeAnother)
	}
	return nil
}

func extract(to io.Writer, from io.Reader, m Manifest, identities []age.Identity) error {
	// age keeps a header as long as it gets in memory.
	bounded := bufio.NewReaderSize(from, maxHeader)
	if head, _ := bounded.Peek(maxHeader); !bytes.Contains(head, []byte(endOfHeader)) {
		return fmt.Errorf("its first %d bytes have no header of age", maxHeader)
	}
	opened, err := age.Decrypt(bounded, identities...)
	if err != nil {
		return err
	}
	unpacked, err := zstd.NewReader(opened, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(2*window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer unpacked.Close()
	// Nothing is unpacked beyond what the manifest says.
	if _, err = io.CopyN(to, unpacked, m.Plain.Bytes); err != nil {
		return err
	}
	if n, err := unpacked.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return errors.New("there is more than its manifest says")
	}
	return nil
}

// meter counts and hashes what it passes on.
type meter struct {
	to   io.Writer
	n    int64
	hash hash.Hash
}

func newMeter(to io.Writer) *meter { return &meter{to: to, hash: sha256.New()} }

// Write implements io.Writer.
func (m *meter) Write(p []byte) (int, error) {
	n, err := m.to.Write(p)
	m.n += int64(n)
	_, _ = m.hash.Write(p[:n])
	return n, err
}

func (m *meter) sum() Sum { return Sum{m.n, hex.EncodeToString(m.hash.Sum(nil))} }

// checked is a meter of a snapshot of etcd, which ends with the hash of all before it.
type checked struct {
	*meter
	before hash.Hash
	last   []byte
}

func newChecked() *checked { return &checked{meter: newMeter(io.Discard), before: sha256.New()} }

// Write implements io.Writer.
func (c *checked) Write(p []byte) (int, error) {
	_, _ = c.meter.Write(p)
	if len(p) >= trailer {
		_, _ = c.before.Write(c.last)
		_, _ = c.before.Write(p[:len(p)-trailer])
		c.last = append(c.last[:0], p[len(p)-trailer:]...)
		return len(p), nil
	}
	c.last = append(c.last, p...)
	if excess := len(c.last) - trailer; excess > 0 {
		_, _ = c.before.Write(c.last[:excess])
		c.last = append(c.last[:0], c.last[excess:]...)
	}
	return len(p), nil
}

// whole fails unless what was written ends with its own hash.
func (c *checked) whole() error {
	if c.n%sector != trailer || c.n <= trailer || !bytes.Equal(c.last, c.before.Sum(nil)) {
		return fmt.Errorf("%w: its %d bytes do not end with their hash", ErrNotWhole, c.n)
	}
	return nil
}

// source keeps an error of reading apart from errors of the format.
type source struct {
	from  io.Reader
	meter *meter
	err   error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	_, _ = s.meter.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// sink does the same for writing.
type sink struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (s *sink) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// Checked reads the object of a manifest, and ends with a refusal in place of io.EOF where it was not what the manifest says.
func (m Manifest) Checked(object io.Reader) io.Reader {
	return &checkedObject{from: io.LimitReader(object, m.Encrypted.Bytes+1), meter: newMeter(io.Discard), manifest: m}
}

type checkedObject struct {
	from     io.Reader
	meter    *meter
	manifest Manifest
}

// Read implements io.Reader.
func (c *checkedObject) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	_, _ = c.meter.Write(p[:n])
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	switch got := c.meter.sum(); {
	case got.Bytes < c.manifest.Encrypted.Bytes:
		return n, Refuse(Truncated, "%s has %d bytes, and its manifest says %d", c.manifest.Object, got.Bytes, c.manifest.Encrypted.Bytes)
	case got != c.manifest.Encrypted:
		return n, Refuse(Tampered, "%s is not what its manifest says", c.manifest.Object)
	}
	return n, io.EOF
}
