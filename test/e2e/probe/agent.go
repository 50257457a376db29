package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"sigs.k8s.io/apiserver-network-proxy/proto/agent"
	"sigs.k8s.io/apiserver-network-proxy/proto/header"
)

// unknownAgents are in what a server of konnectivity answers to an agent that shows no token, and to one whose token an API server does not
// take, whatever else it says. Its errors have no other mark.
var unknownAgents = []string{"Authentication context was not found", "lookup failed: [invalid bearer token", "service account jwt not valid"}

// Agent comes to a server of konnectivity as an agent, and leaves it at once. It answers as a server of HTTP would: 200 to who is let in,
// 401 to who is not known. Nobody is refused only because their token could not be looked at.
func Agent(ctx context.Context, dial Dial, address string, credential Credential) Answer {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(credential.config("h2"))),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }))
	if err != nil {
		return Answer{Err: err}
	}
	defer connection.Close() //nolint:errcheck // nothing was written that matters
	ctx = metadata.AppendToOutgoingContext(ctx, header.AgentID, "probe")
	for _, value := range credential.Header["Authorization"] {
		ctx = metadata.AppendToOutgoingContext(ctx, header.AuthenticationTokenContextKey, value)
	}
	stream, err := agent.NewAgentServiceClient(connection).Connect(ctx)
	if err != nil {
		return Answer{Err: err}
	}
	said, err := stream.Header()
	if err == nil && len(said.Get(header.ServerID)) > 0 {
		return Answer{Status: http.StatusOK}
	}
	if _, err = stream.Recv(); err == nil {
		err = fmt.Errorf("%s does not tell which server it is", address)
	}
	if slices.ContainsFunc(unknownAgents, func(text string) bool { return strings.Contains(err.Error(), text) }) {
		return Answer{Status: http.StatusUnauthorized}
	}
	return Answer{Err: err}
}
