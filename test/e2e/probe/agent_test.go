package probe

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"sigs.k8s.io/apiserver-network-proxy/proto/agent"
	"sigs.k8s.io/apiserver-network-proxy/proto/header"
)

// fakeServer answers agents as a server of konnectivity does.
type fakeServer struct {
	agent.UnimplementedAgentServiceServer
}

func (fakeServer) Connect(stream agent.AgentService_ConnectServer) error {
	said, _ := metadata.FromIncomingContext(stream.Context())
	token := said.Get(header.AuthenticationTokenContextKey)
	switch {
	case len(token) == 1 && token[0] == "Bearer good":
		if err := stream.SendHeader(metadata.Pairs(header.ServerID, "one")); err != nil {
			return err
		}
		_, err := stream.Recv()
		return err
	case len(token) == 1 && token[0] == "Bearer bad":
		return errors.New("Failed to validate authentication token, err:lookup failed: [invalid bearer token]")
	case len(token) == 0:
		return errors.New("Authentication context was not found in metadata")
	}
	return errors.New("Failed to validate authentication token, err:Failed to authenticate request. err:connection refused")
}

func TestWhichAgentIsLetIn(t *testing.T) {
	g := NewWithT(t)
	borrowed := httptest.NewUnstartedServer(nil) // for its certificate
	borrowed.StartTLS()
	defer borrowed.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&borrowed.TLS.Certificates[0])))
	agent.RegisterAgentServiceServer(server, fakeServer{})
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	defer server.Stop()

	address, dialer := listener.Addr().String(), &net.Dialer{}
	g.Expect(Agent(t.Context(), dialer.DialContext, address, Bearer("a token", "good"))).To(Equal(Answer{Status: http.StatusOK}))
	g.Expect(Agent(t.Context(), dialer.DialContext, address, Bearer("another token", "bad"))).To(Equal(Answer{Status: http.StatusUnauthorized}))
	g.Expect(Agent(t.Context(), dialer.DialContext, address, Credential{Name: "no token"})).To(Equal(Answer{Status: http.StatusUnauthorized}))
	unseen := Agent(t.Context(), dialer.DialContext, address, Bearer("a token that could not be looked at", "unseen"))
	g.Expect(unseen.LetIn() || unseen.Refused()).To(BeFalse(), "%s", unseen)
	g.Expect(unseen.Err).To(MatchError(ContainSubstring("connection refused")))
}
