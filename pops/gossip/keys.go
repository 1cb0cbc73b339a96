package gossip

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/memberlist"
)

// ParseKeys reads a key file: a base64 key of 16, 24 or 32 octets a line; empty lines and lines that begin with # are left out. The first key encrypts, all decrypt.
func ParseKeys(file []byte) (keys [][]byte, err error) {
	n := 0
	for line := range bytes.Lines(file) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d: not base64 (hint: openssl rand -base64 32 makes a key)", n)
		}
		if memberlist.ValidateKey(key) != nil {
			return nil, fmt.Errorf("line %d: a key of %d octets; 16, 24 or 32 are needed (hint: openssl rand -base64 32 makes one)", n, len(key))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in it (hint: openssl rand -base64 32 makes one)")
	}
	return keys, nil
}

// SetKeys changes the keys while the fleet goes on. To rotate: give all nodes the new key as the second, then as the first, then take the old one away. A fleet cannot go from plain
// text to keys or back without a restart.
func (g *Gossip) SetKeys(keys [][]byte) error {
	if g.keyring == nil || len(keys) == 0 {
		return errors.New("gossip: keys cannot be added or all removed while running (hint: restart the nodes)")
	}
	for i, k := range keys {
		if err := memberlist.ValidateKey(k); err != nil {
			return fmt.Errorf("gossip: key %d: %w", i+1, err)
		}
	}
	for _, k := range keys {
		if err := g.keyring.AddKey(slices.Clone(k)); err != nil {
			return fmt.Errorf("gossip: %w", err)
		}
	}
	// The library removes a key in place, under the eyes of readers, unless it is the last of the ring. UseKey moves one to the front.
	if !bytes.Equal(g.keyring.GetPrimaryKey(), keys[0]) || !tail(g.keyring.GetKeys(), keys) {
		for _, k := range slices.Backward(keys) {
			if err := g.keyring.UseKey(k); err != nil {
				return fmt.Errorf("gossip: %w", err)
			}
		}
	}
	for _, k := range slices.Backward(g.keyring.GetKeys()) {
		if holds(keys, k) {
			break
		}
		if err := g.keyring.RemoveKey(k); err != nil {
			return fmt.Errorf("gossip: %w", err)
		}
	}
	g.log.Info("gossip keys", "keys", len(keys))
	return nil
}

func holds(keys [][]byte, k []byte) bool {
	return slices.ContainsFunc(keys, func(have []byte) bool { return bytes.Equal(have, k) })
}

// tail tells whether all keys of the ring that are not wanted are at its end.
func tail(ring, wanted [][]byte) bool {
	first := slices.IndexFunc(ring, func(k []byte) bool { return !holds(wanted, k) })
	return first < 0 || !slices.ContainsFunc(ring[first:], func(k []byte) bool { return holds(wanted, k) })
}
