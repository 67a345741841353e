package simtest

import (
	"context"
	"encoding/binary"
	"net"
	"time"

	"polylog/cluster/peer"
	"polylog/core"
)

// impostor says to a process what another node of the cluster has said, or might have:
// it is a message that the network has held up, or brings before others that were sent
// earlier. It speaks from the process's own host, which nothing cuts off.
type impostor struct {
	as      *process
	network *peer.Network
	conn    net.Conn
}

// impersonate connects to a process in the name of another.
func (w *world) impersonate(as, to *process) (*impostor, error) {
	from := &process{node: &node{w: w, host: to.node.host, addr: as.node.addr}}
	m := &impostor{as: as, network: peer.New(peer.Options{
		ClusterID: clusterID, NodeID: as.id,
		DialFunc: func(ctx context.Context, at string) (net.Conn, error) { return w.net.dial(ctx, from, at, to.node.host) },
	})}
	ctx, cancel := within(time.Second)
	defer cancel()
	var err error
	if m.conn, err = m.network.Dial(ctx, to.node.addr, peer.Raft, to.id); err != nil {
		_ = m.network.Close()
		return nil, err
	}
	return m, nil
}

func (m *impostor) close() {
	_ = m.conn.Close()
	_ = m.network.Close()
}

// Calls of raft's, as its network transport writes them: a byte for the kind, then a
// MessagePack map (github.com/msgpack/msgpack/blob/master/spec.md).
const (
	appendEntries = 0
	timeoutNow    = 3
)

// heartbeat says that the other node leads in a term.
func (m *impostor) heartbeat(term core.Term) error {
	b := append(text(m.call(appendEntries, 4), "Term"), 0xcf) // u64
	b = binary.BigEndian.AppendUint64(b, uint64(term))
	_, err := m.conn.Write(b)
	return err
}

// standForElection is the message by which a leader that goes hands leadership over.
func (m *impostor) standForElection() error {
	_, err := m.conn.Write(m.call(timeoutNow, 3))
	return err
}

// call begins a call with so many fields, of which it has raft's header.
func (m *impostor) call(kind byte, fields int) []byte {
	b := []byte{kind, 0x80 | byte(fields)}
	b = append(text(b, "ProtocolVersion"), 3)
	b = text(text(b, "ID"), m.as.id)
	return text(text(b, "Addr"), m.as.node.addr)
}

// text appends a string of less than 32 bytes.
func text(b []byte, s string) []byte { return append(append(b, 0xa0|byte(len(s))), s...) }
