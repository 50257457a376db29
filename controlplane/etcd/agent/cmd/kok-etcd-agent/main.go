// Command kok-etcd-agent runs beside etcd in the pods of its members, in etcd's own image.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "kok-etcd-agent: %v\n", err)
		os.Exit(1)
	}
}
