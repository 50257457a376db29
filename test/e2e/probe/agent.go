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

// unknownAgents are texts of a server of konnectivity. It says the first to an agent without a token, and the others to an agent whose token
// the API server does not take. Its errors have no code by which one could tell.
var unknownAgents = []string{"Authentication context was not found", "invalid bearer token", "service account jwt not valid"}

// Agent connects to a server of konnectivity as an agent does, and leaves at once. The answer has the status of an HTTP server: 200 where the
// server lets the agent in, 401 where it does not know the agent. An API server that could not look at the token makes an error.
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
