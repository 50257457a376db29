package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/kube-on-kube/cluster-api-provider-kok/internal/cli/terminal"
)

// FlagYes is the flag of commands that ask before they change something.
const FlagYes = "yes"

// Say tells a person how far a command is, on standard error. Standard output is for results, which programs may read.
func (c *Cluster) Say(format string, args ...any) {
	_, _ = fmt.Fprintln(c.ErrOut, terminal.Plain(fmt.Sprintf(format, args...)))
}

// Agree lets a person agree to what they were told, unless yes is true. The error says that nothing was changed.
func (c *Cluster) Agree(ctx context.Context, yes bool) error {
	if yes {
		return nil
	}
	if !terminal.IsTerminal(c.In) {
		return fmt.Errorf("nobody can be asked, for standard input is no terminal: add --%s", FlagYes)
	}
	_, _ = fmt.Fprint(c.ErrOut, "Type yes to do it: ")
	switch agreed, err := terminal.Agreed(ctx, c.In); {
	case err != nil:
		return fmt.Errorf("nothing was changed: %w", err)
	case !agreed:
		return errors.New("nothing was changed, for you did not agree")
	}
	return nil
}
