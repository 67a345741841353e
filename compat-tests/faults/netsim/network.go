package netsim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Link is what happens to packets from one host to another; the zero value passes all at once.
type Link struct {
	Cut   bool          // nothing arrives, and nobody is told
	Loss  float64       // the part of packets that do not arrive, from 0 to 1
	Delay time.Duration // how long each packet is under way
	Vary  time.Duration // up to how much longer; packets overtake each other
}

// Network is a set of hosts. Host 0 is the namespace that it was made in.
type Network struct {
	prefix netip.Prefix
	hosts  []*host
	wg     sync.WaitGroup

	mu    sync.RWMutex
	links map[[2]int]Link // from, to
}

type host struct {
	ns  namespace
	tun *os.File
}

// New makes a network of n further hosts: host i has the i+1st address of 10.99.0.0/24.
func New(n int) (*Network, error) {
	w := &Network{prefix: netip.MustParsePrefix("10.99.0.0/24"), links: map[[2]int]Link{}}
	for i := range n + 1 {
		ns, err := currentNamespace()
		if i > 0 {
			err = errors.Join(err, ns.file.Close())
			if err == nil {
				ns, err = newNamespace()
			}
		}
		h := &host{ns: ns}
		if err == nil {
			err = ns.do(func() (err error) {
				h.tun, err = openTUN("polylog0", netip.PrefixFrom(w.Addr(i), w.prefix.Bits()))
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("host %d: %w", i, err), w.Close())
		}
		w.hosts = append(w.hosts, h)
	}
	for i, h := range w.hosts {
		w.wg.Go(func() { w.forward(i, h.tun) })
	}
	return w, nil
}

// Addr is a host's address.
func (w *Network) Addr(host int) netip.Addr {
	a := w.prefix.Addr().As4()
	a[3] = byte(host + 1)
	return netip.AddrFrom4(a)
}

// Do runs fn with the calling thread on the host: a process that fn starts runs there.
func (w *Network) Do(host int, fn func() error) error { return w.hosts[host].ns.do(fn) }

// Set says what happens from now on to packets from one host to another.
func (w *Network) Set(from, to int, l Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[[2]int{from, to}] = l
}

// Heal lets all packets pass again.
func (w *Network) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.links)
}

// Close ends the network; processes on its hosts stay, without anybody to talk to.
func (w *Network) Close() error {
	var err error
	for _, h := range w.hosts {
		err = errors.Join(err, h.tun.Close())
	}
	w.wg.Wait()
	for _, h := range w.hosts {
		err = errors.Join(err, h.ns.file.Close())
	}
	return err
}

// forward passes on what host from sends until its device is closed.
func (w *Network) forward(from int, tun *os.File) {
	buf := make([]byte, 65536)
	for {
		n, err := tun.Read(buf)
		if err != nil {
			return
		}
		to, ok := w.destination(buf[:n])
		if !ok {
			continue
		}
		w.mu.RLock()
		l := w.links[[2]int{from, to}]
		w.mu.RUnlock()
		switch {
		case l.Cut || l.Loss > 0 && rand.Float64() < l.Loss:
		case l.Delay > 0 || l.Vary > 0:
			p := append([]byte(nil), buf[:n]...)
			d := l.Delay
			if l.Vary > 0 {
				d += rand.N(l.Vary)
			}
			time.AfterFunc(d, func() { w.deliver(to, p) })
		default:
			w.deliver(to, buf[:n])
		}
	}
}

// deliver drops what the device does not take, as a network does; TCP sends it again.
func (w *Network) deliver(to int, packet []byte) { _, _ = w.hosts[to].tun.Write(packet) }

// destination finds the host that an IPv4 packet is for: bytes 16 to 19 of its header.
func (w *Network) destination(packet []byte) (int, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return 0, false
	}
	addr := netip.AddrFrom4([4]byte(packet[16:20]))
	i := int(packet[19]) - 1
	return i, w.prefix.Contains(addr) && i >= 0 && i < len(w.hosts)
}
