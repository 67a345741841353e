// Command crash kills the broker under MQTT load, again and again, and looks for what was lost: devices
// publish and subscribe with QoS 1 and 2, over sessions that outlive their connections (package load
// says what must hold), and others have wills, delayed and retained messages in the broker when it is
// killed (survive.go).
package main

import (
	"context"

	"polylog/compat/harness"
	"polylog/compat/harness/crash"
	"polylog/compat/mqtt/load"
)

func main() {
	crash.Main("../../../bin/polylog", 20, func(b *harness.Broker, seed uint64) crash.Load {
		l := load.New(b.MQTT)
		return &devices{Ledger: l.Ledger, load: l, seed: seed, survivors: survivors{load: l}}
	})
}

// devices are sessions under load.
type devices struct {
	*load.Ledger
	load      *load.Load
	seed      uint64
	survivors survivors
}

func (d *devices) Start(ctx context.Context, _ func() error) error {
	if err := d.survivors.watch(); err != nil {
		return err
	}
	return d.load.Start(ctx, d.seed)
}

func (d *devices) Progress(ctx context.Context) error {
	if err := d.load.Progress(ctx, 500); err != nil {
		return err
	}
	return d.survivors.make()
}

func (d *devices) Killed() { d.survivors.killed() }

// Check has nothing but the load itself, which must get on.
func (d *devices) Check(ctx context.Context) error { return d.load.Progress(ctx, 200) }

func (d *devices) Finish(ctx context.Context) error {
	err := d.load.Finish(ctx)
	d.survivors.judge()
	return err
}
