package admin

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificates are the files of [admin.tls]. They are read again when they change; while the new ones cannot be used the old ones are kept.
type certificates struct {
	certificate, key, clientCA string // paths; clientCA may be empty
	log                        *slog.Logger

	mu     sync.Mutex
	config *tls.Config
	seen   [3]time.Time // modification times of what config was made from
	look   time.Time    // not before then
}

var protocols = []string{"h2", "http/1.1"}

// lookEvery bounds how often the files' times are asked for.
const lookEvery = time.Second

func newCertificates(certificate, key, clientCA string, log *slog.Logger) (*certificates, error) {
	c := &certificates{certificate: certificate, key: key, clientCA: clientCA, log: log}
	c.seen = c.times()
	var err error
	if c.config, err = c.load(); err != nil {
		return nil, fmt.Errorf("admin.tls: %w", err)
	}
	return c, nil
}

// server is the configuration of the HTTP server.
func (c *certificates) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols, // the HTTP server looks here to see whether it is to speak HTTP/2
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current(time.Now()), nil
		},
		// ServeTLS wants to see one.
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &c.current(time.Now()).Certificates[0], nil
		},
	}
}

func (c *certificates) current(now time.Time) *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.look) {
		return c.config
	}
	c.look = now.Add(lookEvery)
	if t := c.times(); t != c.seen {
		c.seen = t
		if config, err := c.load(); err != nil {
			c.log.Error("admin certificate kept", "error", err)
		} else {
			c.config = config
			c.log.Info("admin certificate loaded", "file", c.certificate)
		}
	}
	return c.config
}

func (c *certificates) times() (t [3]time.Time) {
	for i, f := range []string{c.certificate, c.key, c.clientCA} {
		if info, err := os.Stat(f); err == nil {
			t[i] = info.ModTime()
		}
	}
	return t
}

func (c *certificates) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: protocols}
	if c.clientCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.clientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", c.clientCA)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven // a token will do as well
	return config, nil
}
