// Command kok-etcd-agent runs in the pods of etcd's members, in an image of its own.
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
