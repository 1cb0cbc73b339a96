// Package integration holds the project's promises, seen from outside: the shape of the code (layers_test.go), and real processes on loopback.
//
// It is tests only; nothing imports it.
package integration
