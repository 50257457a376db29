package space

const (
	// MuchFree is the number of bytes in free pages from which it pays to write a file anew.
	MuchFree = 128 << 20
	// nearly is the part of the quota, in per cent, above which a file is written anew before it reaches that.
	nearly = 80
)

// Fragmented reports whether a file has so many free pages that its member should start anew, which writes it anew: they are more than
// half of it, or it has nearly reached its quota. Fewer free pages cost nothing but disk, because etcd uses them again.
func (m Member) Fragmented() bool {
	free := m.Size - m.InUse
	return m.Started && m.InUse > 0 && free >= MuchFree && (2*free > m.Size || m.Quota > 0 && m.Size > m.Quota/100*nearly)
}
