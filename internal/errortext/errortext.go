// Package errortext puts errors into words for conditions.
package errortext

import (
	"errors"
	"net"
	"strings"
)

// Steady is what an error says, without our own end of a connection, whose port is another one each time: a condition
// that had it would change with each try, and each change would be the reason for the next.
func Steady(err error) string {
	var operation *net.OpError
	if !errors.As(err, &operation) || operation.Source == nil {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), operation.Source.String()+"->", "")
}
