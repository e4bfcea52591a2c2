package safehttp_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// names is a name server in memory. A name has the addresses of its first entry in the
// first look-up, those of the next one in the next; the last entry stays.
type names struct {
	mu      sync.Mutex
	answers map[string][][]netip.Addr
	asked   int
}

func resolving(answers map[string][][]netip.Addr) *names { return &names{answers: answers} }

func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(theirs)
		return ours, nil
	}}
}

// serve answers one connection, framed as DNS is over TCP.
func (n *names) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		answer := n.answer(question)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

const (
	headerBytes = 12
	typeA       = 1
)

func (n *names) answer(question []byte) []byte {
	name, end := "", headerBytes
	for question[end] != 0 {
		label := int(question[end])
		name += string(question[end+1:end+1+label]) + "."
		end += 1 + label
	}
	kind := binary.BigEndian.Uint16(question[end+1:])
	end += 5 // the end of the name, type and class
	out := append([]byte(nil), question[:end]...)
	out[2], out[3] = 0x81, 0x80 // an answer to a recursive query
	found := n.addresses(name, kind)
	binary.BigEndian.PutUint16(out[6:], uint16(len(found)))
	out[10], out[11] = 0, 0 // the question's own extras are not repeated
	for _, a := range found {
		out = append(out, 0xC0, headerBytes) // the name stands there
		out = binary.BigEndian.AppendUint16(out, kind)
		out = append(out, 0, 1, 0, 0, 0, 0) // internet, not to be kept
		out = binary.BigEndian.AppendUint16(out, uint16(a.BitLen()/8))
		out = append(out, a.AsSlice()...)
	}
	return out
}

func (n *names) addresses(name string, kind uint16) (found []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := n.answers[name]
	if len(left) == 0 {
		return nil
	}
	for _, a := range left[0] {
		if a.Is4() == (kind == typeA) {
			found = append(found, a)
		}
	}
	// Both questions of one look-up get the same entry.
	if n.asked++; n.asked%2 == 0 && len(left) > 1 {
		n.answers[name] = left[1:]
	}
	return found
}
