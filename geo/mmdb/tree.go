package mmdb

import (
	"encoding/binary"
	"errors"
)

// errTree says that the search tree is damaged so that it is no tree: walking it might never end.
var errTree = errors.New("damaged search tree: a node is reached in more than one way")

// checkTree makes sure that each node of a search tree has one way to it: nodes that share children have more networks than anybody can count, and the reader would walk
// them all. Only the root of the IPv4 space may have several, the aliases for embedded addresses. data begins with the tree of n nodes, of two records of size bits each
// (MaxMind DB format specification, "Node Layout").
func checkTree(data []byte, n, size uint, v6 bool) error {
	if uint64(len(data)) < uint64(n)*uint64(size)/4 {
		return errors.New("truncated search tree")
	}
	var v4root uint
	if v6 {
		for range 96 {
			if v4root >= n {
				break
			}
			v4root, _ = node(data, v4root, size)
		}
	}
	reached := make([]uint64, n/64+1)
	for i := range n {
		left, right := node(data, i, size)
		for _, to := range [...]uint{left, right} {
			if to >= n || to == v4root && v6 {
				continue
			}
			if to == 0 || reached[to/64]&(1<<(to%64)) != 0 {
				return errTree
			}
			reached[to/64] |= 1 << (to % 64)
		}
	}
	return nil
}

// node reads the two records of a node.
func node(data []byte, i, size uint) (left, right uint) {
	b := data[i*size/4:]
	switch size {
	case 24:
		return uint(b[0])<<16 | uint(b[1])<<8 | uint(b[2]), uint(b[3])<<16 | uint(b[4])<<8 | uint(b[5])
	case 28:
		return uint(b[3]>>4)<<24 | uint(b[0])<<16 | uint(b[1])<<8 | uint(b[2]), uint(b[3]&15)<<24 | uint(b[4])<<16 | uint(b[5])<<8 | uint(b[6])
	default:
		return uint(binary.BigEndian.Uint32(b)), uint(binary.BigEndian.Uint32(b[4:]))
	}
}
