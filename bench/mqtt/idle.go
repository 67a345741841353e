package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"polylog/compat/harness"
)

// settling is how long a broker is left alone before it is weighed.
const settling = 5 * time.Second

// inParallel runs f for 0 to n-1 by a number of workers, until one fails.
func inParallel(n, workers int, f func(i int) error) error {
	errs := make(chan error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// idle weighs connections that have one subscription each and say nothing.
func (b *bench) idle(broker *harness.Broker) (s sample, err error) {
	before, err := broker.Usage()
	if err != nil {
		return s, err
	}
	conns := make([]net.Conn, b.idleConns)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	begin := time.Now()
	err = inParallel(len(conns), 16, func(i int) (err error) {
		if conns[i], err = dial(broker.MQTT, fmt.Sprint("idle-", i), true); err != nil {
			return err
		}
		return subscribe(conns[i], fmt.Sprintf("devices/%d/commands", i), 1)
	})
	if err != nil {
		return s, err
	}
	took := time.Since(begin)
	time.Sleep(settling)
	after, err := broker.Usage()
	if err != nil {
		return s, err
	}
	return sample{
		rate: float64(len(conns)) / took.Seconds(), each: float64(after.RSS-before.RSS) / float64(len(conns)),
		cpu: float64((after.CPU - before.CPU).Microseconds()) / float64(len(conns)), rss: after.RSS,
	}, nil
}

// sessions makes sessions that nobody is connected to, with one subscription each, starts the
// broker anew, and weighs it. It returns the broker that runs then.
func (b *bench) sessions(ctx context.Context, side side, broker *harness.Broker, dir string) (s sample, again *harness.Broker, err error) {
	begin := time.Now()
	var made atomic.Int64
	err = inParallel(b.sessionCount, 64, func(i int) error {
		c, err := dial(broker.MQTT, fmt.Sprintf("device-%07d", i), false)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := subscribe(c, fmt.Sprintf("devices/%07d/commands/+", i), 1); err != nil {
			return err
		}
		if n := made.Add(1); n%100_000 == 0 {
			fmt.Printf("  %d sessions after %v\n", n, time.Since(begin).Round(time.Second))
		}
		_, err = c.Write(packet(0xe0, nil))
		return err
	})
	if err != nil {
		return s, broker, err
	}
	took := time.Since(begin)
	used, err := broker.Usage()
	if err != nil {
		return s, broker, err
	}
	time.Sleep(settling)
	if err := broker.Stop(time.Minute); err != nil {
		return s, broker, err
	}
	if broker, err = side.start(ctx, b.bin, dir+"-empty"); err != nil { // what it takes with nothing
		return s, broker, err
	}
	time.Sleep(settling)
	empty, err := broker.Usage()
	broker.Kill()
	if err != nil {
		return s, broker, err
	}
	if broker, err = side.start(ctx, b.bin, dir); err != nil {
		return s, broker, err
	}
	c, err := dial(broker.MQTT, "first", true)
	if err != nil {
		return s, broker, err
	}
	_ = c.Close()
	time.Sleep(settling)
	before, err := broker.Usage()
	if err != nil {
		return s, broker, err
	}
	time.Sleep(settling)
	after, err := broker.Usage()
	return sample{
		rate: float64(b.sessionCount) / took.Seconds(), cpu: float64(used.CPU.Microseconds()) / float64(b.sessionCount),
		each: float64(after.RSS-empty.RSS) / float64(b.sessionCount), rss: after.RSS,
		ready: broker.Ready, idleCPU: float64(after.CPU-before.CPU) / float64(settling),
	}, broker, err
}
