package core

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
)

func TestStreamPipe(t *testing.T) {
	near, serve := NewStreamPipe(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		serve(func(s Stream) error {
			for {
				m, err := s.Recv()
				if errors.Is(err, io.EOF) {
					return E(Conflict, "enough")
				}
				if err != nil {
					return err
				}
				if err := s.Send(append(m, '!')); err != nil {
					return err
				}
			}
		})
	})
	for _, m := range []string{"a", "b", ""} {
		if err := near.Send([]byte(m)); err != nil {
			t.Fatal(err)
		}
		if got, err := near.Recv(); err != nil || string(got) != m+"!" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if err := near.Send(make([]byte, MaxStreamMessage+1)); KindOf(err) != TooLarge {
		t.Fatal(err)
	}
	if err := near.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := near.Send(nil); KindOf(err) != Closed {
		t.Fatal(err)
	}
	if _, err := near.Recv(); KindOf(err) != Conflict || err.Error() != "enough" {
		t.Fatal(err)
	}
	wg.Wait()
	<-near.Context().Done()
}

func TestStreamPipeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	near, serve := NewStreamPipe(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		serve(func(s Stream) error {
			_, err := s.Recv()
			if KindOf(err) != Unavailable {
				t.Errorf("after a cancelled context: %v", err)
			}
			return err
		})
	})
	cancel()
	wg.Wait()
	if err := near.Send(nil); err == nil {
		t.Fatal("sent into a stream that has ended")
	}

	near, serve = NewStreamPipe(t.Context())
	serve(func(Stream) error { return nil })
	if _, err := near.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}
