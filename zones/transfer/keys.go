package transfer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"os"

	"github.com/miekg/dns"

	"github.com/edgesteer/edgesteer/server/config"
	"github.com/edgesteer/edgesteer/zones/wire"
)

// Keys are the TSIG keys of a configuration. They are immutable; nil has none.
type Keys struct {
	byName map[string]*key // wire form, lower case
}

// key is one TSIG key.
type key struct {
	text      string // its name, for people
	name      []byte // wire form, lower case
	algorithm []byte // wire form, lower case
	secret    []byte
	hash      func() hash.Hash
}

// NewKeys takes the keys of a configuration and reads the files that some are in. The problems are those of files, names and secrets; keys with problems are left out.
func NewKeys(cfg *config.Config) (*Keys, []config.Problem) {
	k := &Keys{byName: map[string]*key{}}
	var problems []config.Problem
	for i := range cfg.TSIG {
		made, field, err := newKey(&cfg.TSIG[i], cfg.Path)
		if errors.Is(err, errReported) {
			continue
		}
		if err != nil {
			problems = append(problems, cfg.Problem(err.Error(), "", "tsig", i, field))
			continue
		}
		k.byName[string(made.name)] = made
	}
	return k, problems
}

// errReported is of a key whose secret package config has refused.
var errReported = errors.New("reported")

// newKey reads a key. field is what an error is about.
func newKey(c *config.TSIG, path func(string) string) (made *key, field string, err error) {
	name, err := wire.ParseName(c.Name)
	if err != nil {
		return nil, "name", err
	}
	made = &key{text: wire.NameString(name), name: wire.ToLower(nil, name)}
	if made.algorithm, made.hash = algorithm(c.Algorithm); made.hash == nil {
		return nil, "algorithm", fmt.Errorf("unknown algorithm %q", c.Algorithm)
	}
	text, field := []byte(c.Secret), "secret"
	if c.SecretFile != "" {
		field = "secret_file"
		if text, err = os.ReadFile(path(c.SecretFile)); err != nil {
			return nil, field, fmt.Errorf("reading key: %w", err)
		}
	}
	made.secret, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	switch {
	case field == "secret" && (err != nil || c.Secret == ""):
		return nil, field, errReported
	case err != nil:
		return nil, field, fmt.Errorf("key %s is not base64", made.text)
	case len(made.secret) == 0:
		return nil, field, fmt.Errorf("key %s is empty", made.text)
	}
	return made, "", nil
}

// algorithm is an HMAC by name: its name in wire form and its hash, nil for one that is not known.
func algorithm(name string) ([]byte, func() hash.Hash) {
	wired, err := wire.ParseName(name)
	if err != nil {
		return nil, nil
	}
	wired = wire.ToLower(nil, wired)
	switch dns.CanonicalName(name) {
	case dns.HmacSHA1:
		return wired, sha1.New
	case dns.HmacSHA224:
		return wired, sha256.New224
	case dns.HmacSHA256:
		return wired, sha256.New
	case dns.HmacSHA384:
		return wired, sha512.New384
	case dns.HmacSHA512:
		return wired, sha512.New
	}
	return nil, nil
}

// find gives the key of a name (wire form, lower case), nil if there is none.
func (k *Keys) find(name []byte) *key {
	if k == nil {
		return nil
	}
	return k.byName[string(name)]
}

// named gives the key that a configuration names, nil if there is none.
func (k *Keys) named(name string) *key { return k.find(parseName(name)) }

func (k *key) mac() hash.Hash { return hmac.New(k.hash, k.secret) }

// parseName is a name of text in wire form and lower case; nil for what is no name.
func parseName(text string) []byte {
	name, err := wire.ParseName(text)
	if err != nil {
		return nil
	}
	return wire.ToLower(nil, name)
}
