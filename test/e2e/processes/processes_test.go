package processes

import (
	"net"
	"net/netip"
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParseTable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E43 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 101 1 0 100 0 0 10 0
   1: 0100007F:4E43 0100007F:9C40 01 00000000:00000000 00:00000000 00000000 65532        0 102 1 0 100 0 0 10 0
   2: 00000000000000000000000000000000:4E40 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 103 1 0 100 0 0 10 0
   3: 0000000000000000FFFF00000B00DC0A:4E41 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 104 1 0 100 0 0 10 0
`
	g := NewWithT(t)
	found, err := parseTable(table)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(Equal(map[string]netip.AddrPort{
		"101": netip.MustParseAddrPort("127.0.0.1:20035"),
		"103": netip.MustParseAddrPort("[::]:20032"),
		"104": netip.MustParseAddrPort("10.220.0.11:20033"),
	}))
	_, err = parseAddress("0100007F")
	g.Expect(err).To(HaveOccurred())
}

func TestAListenerOfThisProcessIsFound(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	want := listener.Addr().(*net.TCPAddr).AddrPort()
	found, err := Listeners(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(ContainElement(want))
	g.Expect(listener.Close()).To(Succeed())
	found, err = Listeners(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).NotTo(ContainElement(want))
}

func TestParsePrivileges(t *testing.T) {
	g := NewWithT(t)
	fields := map[string]string{
		"Uid": "0\t65532\t0\t0", "Gid": "65532\t65532\t65532\t65532", "NoNewPrivs": "1", "Seccomp_filters": "6", "PPid": "41",
		"CapEff": "0000000000000000", "CapBnd": "00000000a80425fb",
	}
	privileges, err := parsePrivileges(fields)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(privileges).To(Equal(Privileges{User: 65532, Group: 65532, Bounding: 0xa80425fb, NoNewPrivileges: true, Filters: 6, Parent: 41}))
	delete(fields, "Seccomp_filters")
	_, err = parsePrivileges(fields)
	g.Expect(err).To(MatchError("the status of a process lacks Seccomp_filters"))
}

func TestThisProcess(t *testing.T) {
	g := NewWithT(t)
	privileges, err := PrivilegesOf(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(privileges.User).To(Equal(os.Geteuid()))
	g.Expect(Has(os.Getpid(), "/proc")).To(BeTrue())
	g.Expect(Has(os.Getpid(), "/no/such/path")).To(BeFalse())
	g.Expect(privileges.Parent).To(Equal(os.Getppid()))
	mounts, err := Mounts(os.Getpid())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(mounts).To(ContainElement(HaveField("Path", "/proc")))
}

func TestParseMounts(t *testing.T) {
	const table = `586 451 0:64 / / ro,relatime - overlay overlay rw,lowerdir=/a
590 586 0:70 / /var/lib/etcd rw,relatime - ext4 /dev/vda rw
`
	NewWithT(t).Expect(parseMounts(table)).To(Equal([]Mount{{Path: "/", ReadOnly: true}, {Path: "/var/lib/etcd"}}))
}
