package kafkarest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"sync"
	"time"

	"polylog/core"
	"polylog/protocols/kafka"
)

// instances are the consumer instances of this node.
type instances struct {
	srv *Server

	mu     sync.Mutex // guards what follows
	byName map[instanceName]*instance
	ending sync.WaitGroup // instances that end by themselves; added to under mu, unless closed
	closed bool
}

type instanceName struct{ group, name string }

func (is *instances) init(s *Server) { is.srv, is.byName = s, map[instanceName]*instance{} }

func (is *instances) count() int {
	is.mu.Lock()
	defer is.mu.Unlock()
	return len(is.byName)
}

// newName is a name for an instance that its client gives none.
func newName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the program
	return "rest-consumer-" + hex.EncodeToString(b[:])
}

// add makes an instance.
func (is *instances) add(caller kafka.Caller, group, name string, config instanceConfig) (*instance, error) {
	is.mu.Lock()
	defer is.mu.Unlock()
	key := instanceName{group, name}
	switch {
	case is.closed:
		return nil, errNotReady
	case is.byName[key] != nil:
		return nil, errInstanceExists
	case len(is.byName) >= is.srv.opts.MaxInstances:
		return nil, &refusal{429, "This node has as many consumer instances as it may: delete those that are not used, or wait for their time-out."}
	}
	in := &instance{
		srv: is.srv, instanceName: key, caller: caller, config: config,
		reading: make(chan struct{}, 1), moved: make(chan struct{}), committed: is.srv.opts.Clock(),
	}
	in.ctx, in.stop = context.WithCancel(context.Background())
	dial := func() (net.Conn, error) { return is.srv.opts.Kafka.DialCoordinator(in.ctx, in.asCaller()) }
	in.member = &coordinator{dial: dial, clientID: name}
	in.offsets = &coordinator{dial: dial, clientID: name}
	in.expiry = time.AfterFunc(is.srv.opts.InstanceTimeout, func() { is.expire(in) })
	is.byName[key] = in
	return in, nil
}

// find finds an instance and begins a call for it. leave ends that.
func (is *instances) find(group, name string) (*instance, error) {
	is.mu.Lock()
	in := is.byName[instanceName{group, name}]
	is.mu.Unlock()
	if in == nil || !in.enter() {
		return nil, errInstanceNotFound
	}
	return in, nil
}

// expire ends an instance that nobody has asked anything for long.
func (is *instances) expire(in *instance) {
	is.mu.Lock()
	if is.closed || is.byName[in.instanceName] != in || !in.idle() {
		is.mu.Unlock()
		return
	}
	delete(is.byName, in.instanceName)
	is.ending.Add(1)
	is.mu.Unlock()
	defer is.ending.Done()
	is.srv.opts.Logger.Info("a consumer instance was not used for long and is gone", "group", in.group, "instance", in.name)
	in.close(false)
}

// remove takes an instance away, for its client.
func (is *instances) remove(in *instance) error {
	is.mu.Lock()
	defer is.mu.Unlock()
	if is.byName[in.instanceName] != in {
		return errInstanceNotFound
	}
	delete(is.byName, in.instanceName)
	return nil
}

// closeAll ends all instances: their clients find none on this node any more. What takes longer
// than ctx is cut off.
func (is *instances) closeAll(ctx context.Context) {
	is.mu.Lock()
	is.closed = true
	all := is.byName
	is.byName = map[instanceName]*instance{}
	is.mu.Unlock()
	for _, in := range all {
		stop := context.AfterFunc(ctx, in.stop)
		is.ending.Go(func() {
			defer stop()
			in.close(false)
		})
	}
	is.ending.Wait()
}

// limits of names, in bytes: the path has them.
const maxName = 255

func checkName(what, name string) error {
	if name == "" || len(name) > maxName {
		return core.E(core.Invalid, "%s: want 1 to %d bytes", what, maxName)
	}
	return nil
}
