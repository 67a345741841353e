package amqp

import (
	"context"
	"time"

	"polylog/core"
	"polylog/protocols/amqp/spec"
)

// namespace is the namespace that a virtual host stands for. "/" is the default one, which has
// no other name here.
func (s *Server) namespace(ctx context.Context, vhost string) (name string, ok bool, err error) {
	switch vhost {
	case "/":
		return core.DefaultNamespace, true, nil
	case core.DefaultNamespace:
		return "", false, nil
	}
	exists, err := s.hasNamespace(vhost)
	if err == nil && !exists { // maybe it was created just now, elsewhere
		if err = s.router.Sync(ctx); err == nil {
			exists, err = s.hasNamespace(vhost)
		}
	}
	return vhost, exists, err
}

func (s *Server) hasNamespace(name string) (bool, error) {
	n, err := s.router.Namespace(name)
	if core.KindOf(err) == core.NotFound {
		return false, nil
	}
	return err == nil && !n.Deleted, err
}

// leaveDeleted closes the connections to virtual hosts that are gone.
func (s *Server) leaveDeleted(cs []*conn) {
	exists := map[string]bool{core.DefaultNamespace: true}
	for _, c := range cs {
		where := c.where.Load()
		if where == nil {
			continue
		}
		here, known := exists[*where]
		if !known {
			var err error
			if here, err = s.hasNamespace(*where); err != nil {
				here = true // nobody knows
			}
			exists[*where] = here
		}
		if !here {
			c.close(hard(spec.ConnectionForced, "vhost '%s' is deleted", *where))
		}
	}
}

// vhostInterval is between two looks for deleted virtual hosts.
const vhostInterval = time.Second
