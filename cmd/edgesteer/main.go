// Command edgesteer is an authoritative DNS server that steers clients to points of presence, and the tool that operates it.
package main

import (
	"os"

	"github.com/edgesteer/edgesteer/cmd/edgesteer/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
