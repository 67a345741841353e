package webhook

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is endpoints that want one request each. woken are those whose turn came while they waited.
type crowd struct {
	lane  *lane
	turns []*turn

	mu    sync.Mutex
	woken []int // guarded by mu
}

func newCrowd(l *lane, n int) *crowd {
	c := &crowd{lane: l}
	for i := range n {
		c.turns = append(c.turns, &turn{wake: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.woken = append(c.woken, i)
		}})
	}
	return c
}

// wakened are those who were woken since it was asked for last.
func (c *crowd) wakened() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.woken
	c.woken = nil
	return all
}

// take has some ask, and says who got it.
func (c *crowd) take(who ...int) (got []int) {
	for _, i := range who {
		if c.turns[i].take(c.lane) {
			got = append(got, i)
		}
	}
	return got
}

func (c *crowd) is(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// Who finds a lane taken is woken when it is its turn, in the order in which they came, and not before.
func TestLaneInOrder(t *testing.T) {
	c := newCrowd(&lane{most: 2}, 5)
	c.is(t, "taken", c.take(0, 1, 2, 3, 4, 2), 0, 1)
	c.lane.leave()
	c.is(t, "woken", c.wakened(), 2)
	c.is(t, "taken", c.take(4, 3, 2), 2)
	c.turns[3].giveUp()
	c.turns[3].giveUp()
	c.lane.leave()
	c.is(t, "woken", c.wakened(), 4)
	c.turns[3].take(c.lane)
	c.turns[4].giveUp() // it has no use for it any more
	c.is(t, "woken", c.wakened(), 3)
	other := &lane{most: 1}
	if !c.turns[3].take(other) { // which gives up the turn in the first one
		t.Fatal("an empty lane has no room")
	}
	c.lane.leave()
	if c.lane.flying != 0 || c.lane.line.Len() != 0 {
		t.Fatalf("%d under way, %d in line", c.lane.flying, c.lane.line.Len())
	}
}

// One that comes after a crowd that waits for its first request goes before it.
func TestLaneNewestFirst(t *testing.T) {
	c := newCrowd(&lane{most: 1, newest: true}, 1000)
	for i := range c.turns {
		c.take(i)
	}
	c.lane.leave()
	c.is(t, "woken", c.wakened(), 999)
}

// Ten thousand dead endpoints whose requests fail at once make a bounded number of them in a time, in turn, and
// do nothing at all while they wait; who is well has another lane.
func TestLaneBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead = 10_000
		c := newCrowd(&lane{most: maxDead, every: deadEvery}, dead)
		var made int
		for i := range c.turns {
			made += len(c.take(i))
		}
		for range 100 {
			<-time.After(10 * time.Millisecond)
			synctest.Wait()
			for _, i := range c.wakened() {
				c.is(t, "taken", c.take(i), i)
				c.lane.leave()
				made++
				c.take(i) // it has more
			}
		}
		if most := int(time.Second/deadEvery) + laneBurst + maxDead; made > most || made < int(time.Second/deadEvery) {
			t.Fatalf("%d requests in a second", made)
		}
		if c.lane.flying > maxDead {
			t.Fatalf("%d under way", c.lane.flying)
		}
	})
}
