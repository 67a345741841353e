package webhook

import (
	"container/list"
	"sync"
	"time"
)

// lane is a share of the requests that may be under way, with a bound of how many may begin in a time. Endpoints
// that find it taken stand in line, and are woken when it is their turn: ten thousand that wait cost nothing.
// Its times are those of the machine, whatever the engine's clock says.
type lane struct {
	most  int           // requests under way
	every time.Duration // between the beginnings of two; 0: none
	// newest says that who came last goes first. It is for those who need it once: no crowd holds up
	// one that comes after it.
	newest bool

	mu     sync.Mutex  // guards what follows, and all turns
	flying int         // requests under way, and turns that were given and not used
	next   time.Time   // when the next one may begin; it lags behind the time by laneBurst requests at most
	line   list.List   // of *turn
	timer  *time.Timer // gives turns when next has come; nil: there was no need
}

// laneBurst is how many requests may begin at once after a pause: timers are not exact.
const laneBurst = 16

// turn is an endpoint's place in the line of a lane, and then its right to one request.
type turn struct {
	wake  func()
	lane  *lane         // the endpoint's own; nil: it wants nothing
	place *list.Element // in the lane's line; nil: it is not there
	given bool
}

// take uses the turn for a request, which ends with leave, if it may begin now. Where it may not, wake is
// called when it may.
func (t *turn) take(l *lane) bool {
	if t.lane != l {
		t.giveUp()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.lane == nil {
		t.lane, t.place = l, l.line.PushBack(t)
		l.give(t)
	}
	if !t.given {
		return false
	}
	t.lane, t.given = nil, false
	return true
}

// giveUp leaves the line, or lets somebody else have the turn.
func (t *turn) giveUp() {
	l := t.lane
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.given {
		l.flying--
	} else {
		l.line.Remove(t.place)
	}
	t.lane, t.place, t.given = nil, nil, false
	l.give(nil)
}

// leave ends a request.
func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	l.give(nil)
}

// give gives those who wait the turns that there are. Who is one of them needs no waking. The caller holds mu.
func (l *lane) give(who *turn) {
	for l.flying < l.most && l.line.Len() > 0 {
		if now := time.Now(); l.every > 0 {
			if wait := l.next.Sub(now); wait > 0 {
				l.later(wait)
				return
			}
			if least := now.Add(-laneBurst * l.every); l.next.Before(least) {
				l.next = least
			}
			l.next = l.next.Add(l.every)
		}
		first := l.line.Front()
		if l.newest {
			first = l.line.Back()
		}
		t, _ := l.line.Remove(first).(*turn)
		t.place, t.given = nil, true
		l.flying++
		if t != who {
			t.wake()
		}
	}
}

// later has turns given after a while. The caller holds mu.
func (l *lane) later(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.give(nil)
		})
		return
	}
	l.timer.Reset(d)
}
