package commitlog

import "time"

// Sync forces every appended entry to the disk, whatever the policy. It does not
// keep Append or readers waiting.
func (l *Log) Sync() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.RLock()
	s, sealing := l.active, l.sealing
	end, last, synced := s.end, s.next()-1, l.synced
	l.mu.RUnlock()
	if last == synced {
		return nil
	}
	// Segments become durable in order: recovery relies on it.
	if sealing != nil {
		<-sealing
		if err := l.Err(); err != nil {
			return err
		}
	}
	if err := s.file.SyncData(); err != nil {
		return l.syncFailed(s, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = max(l.synced, last)
	s.syncedEnd = max(s.syncedEnd, end)
	return nil
}

// flushLoop syncs at every interval until Close.
func (l *Log) flushLoop() {
	defer l.bg.Done()
	t := time.NewTicker(l.o.FlushInterval)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			if l.Sync() != nil {
				return // the log is poisoned: the next Append says so
			}
		}
	}
}
