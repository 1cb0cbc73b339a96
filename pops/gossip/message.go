package gossip

import (
	"encoding/binary"
	"errors"
)

// kind is the first octet of a message.
type kind byte

const (
	pieces  kind = 1 // of states
	digests kind = 2 // of whole states
	goodbye kind = 3 // the sender leaves
	whole   kind = 4 // all states, on an exchange
)

// message is what one node says to another: who speaks, and records. On the wire, all lengths as varints (encoding/binary):
//
//	kind (1 octet), sender, then records: state name, key, id (8 octets, big endian), data
//
// A reader takes what it knows and leaves the rest, so that fields can be added at the end of data.
type message struct {
	kind    kind
	sender  string
	records []record
}

// record is a piece of a state, or a digest of one.
type record struct {
	state string
	key   string // a later piece of the same state and key takes the place of an earlier one that was not sent yet
	id    uint64 // of a broadcast, which is passed on once; 0: it is not passed on
	data  []byte
}

// head is the room that a message takes beside its records, and overhead that of a record beside its texts, at the most.
const overhead = 8 + 3*binary.MaxVarintLen32

func (r *record) size() int { return overhead + len(r.state) + len(r.key) + len(r.data) }

func (m *message) size() int {
	n := 1 + binary.MaxVarintLen32 + len(m.sender)
	for i := range m.records {
		n += m.records[i].size()
	}
	return n
}

func (m *message) encode() []byte {
	b := make([]byte, 0, m.size())
	b = append(b, byte(m.kind))
	b = appendText(b, m.sender)
	for i := range m.records {
		r := &m.records[i]
		b = appendText(b, r.state)
		b = appendText(b, r.key)
		b = binary.BigEndian.AppendUint64(b, r.id)
		b = appendText(b, r.data)
	}
	return b
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

var errCut = errors.New("message is cut short")

// decode reads a message. The data of its records is a part of b.
func decode(b []byte) (m message, err error) {
	if len(b) == 0 {
		return m, errCut
	}
	m.kind, b = kind(b[0]), b[1:]
	sender, b, err := text(b)
	if err != nil {
		return m, err
	}
	m.sender = string(sender)
	for len(b) > 0 {
		var r record
		var t []byte
		if t, b, err = text(b); err != nil {
			return m, err
		}
		r.state = string(t)
		if t, b, err = text(b); err != nil {
			return m, err
		}
		r.key = string(t)
		if len(b) < 8 {
			return m, errCut
		}
		r.id, b = binary.BigEndian.Uint64(b), b[8:]
		if r.data, b, err = text(b); err != nil {
			return m, err
		}
		m.records = append(m.records, r)
	}
	return m, nil
}

func text(b []byte) (t, rest []byte, err error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, nil, errCut
	}
	return b[k : k+int(n) : k+int(n)], b[k+int(n):], nil
}
