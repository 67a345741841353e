package ledger

import (
	"fmt"
	"sync"
)

// Faults takes down each broken promise.
type Faults struct {
	mu    sync.Mutex
	total int
	first []string
}

// Fail takes down something that must not be.
func (f *Faults) Fail(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total++
	if len(f.first) < 100 { // one broken promise is enough; a million lines of it are not
		f.first = append(f.first, fmt.Sprintf(format, args...))
	}
}

// Wrong are the broken promises so far: how many, and the first hundred.
func (f *Faults) Wrong() (int, []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total, append([]string(nil), f.first...)
}
