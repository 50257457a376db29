package attack

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-on-kube/cluster-api-provider-kok/test/e2e/probe"
)

// Door is what a worker's root dials.
type Door struct {
	// Target is whose it is, Paths are what only those may read who are let in.
	Target    string
	Addresses []string
	Paths     []string
}

// Dial shows every credential at every address of a door, from the worker, with TLS and, without a credential, without.
func (a *Attacker) Dial(ctx context.Context, report *Report, door Door, list []probe.Credential) error {
	refusals := map[string]int{}
	outcome := Outcome{Name: "the worker's root dials", Did: fmt.Sprintf("%d addresses, %d credentials, %q", len(door.Addresses), len(list), door.Paths), Target: door.Target}
	for _, address := range door.Addresses {
		for _, path := range door.Paths {
			answers := map[string]probe.Answer{}
			err := a.Worker.InNetwork(func() error {
				short, cancel := context.WithTimeout(ctx, 3*time.Second)
				answers["no TLS"] = probe.Plain(short, address, path)
				cancel()
				if silent := answers["no TLS"]; silent.Err != nil && !silent.Refused() {
					return nil // Nobody is reached there: no credential changes that.
				}
				for _, credential := range list {
					answers[credential.Name] = probe.TLS(ctx, address, credential, path)
				}
				return nil
			})
			if err != nil {
				return err
			}
			for name, answer := range answers {
				if answer.Err == nil && answer.Status < 300 {
					outcome.Succeeded, outcome.Remark = true, fmt.Sprintf("%s%s answered %s", address, path, name)
				}
				refusals[refusal(answer)]++
			}
		}
	}
	var said []string
	for text, count := range refusals {
		said = append(said, fmt.Sprintf("%d times %s", count, text))
	}
	slices.Sort(said)
	outcome.Stopped = strings.Join(said, ", ")
	report.Add(outcome)
	return nil
}

// refusal is how a door stays shut, without where.
func refusal(answer probe.Answer) string {
	text := answer.String()
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}

// AgentToken is a token for konnectivity's agents of the tenant.
func (a *Attacker) AgentToken(ctx context.Context) (string, error) {
	token, err := a.API.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, "konnectivity-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"system:konnectivity-server"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make a token for konnectivity's agents: %w", err)
	}
	return token.Status.Token, nil
}

// Agent connects to konnectivity's server as an agent does, from the worker; it gives what the server calls itself.
func (a *Attacker) Agent(ctx context.Context, address, token string, certificate *tls.Certificate) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}} //nolint:gosec // The question is whom the server lets in.
	if certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return a.Worker.Dial(ctx, "tcp", address) }))
	if err != nil {
		return "", err
	}
	defer connection.Close() //nolint:errcheck // Nothing was sent that matters.
	sent := metadata.Pairs("agentID", a.name("agent"), "agentIdentifiers", "default-route=true")
	if token != "" {
		sent.Set("authorization", "Bearer "+token)
	}
	stream, err := connection.NewStream(metadata.NewOutgoingContext(ctx, sent), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/AgentService/Connect")
	if err != nil {
		return "", err
	}
	header, err := stream.Header()
	if err == nil && len(header.Get("serverID")) > 0 {
		return header.Get("serverID")[0], nil
	}
	if err == nil {
		err = stream.RecvMsg(&emptypb.Empty{})
	}
	return "", fmt.Errorf("konnectivity's server says: %w", err)
}
