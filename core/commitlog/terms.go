package commitlog

import (
	"sort"

	"polylog/core"
)

// termList says where each term of the log begins, in order of both. It is guarded
// by Log.mu.
type termList []termStart

// add notes that the entry at i has term t.
func (l *termList) add(i core.LogIndex, t core.Term) {
	if n := len(*l); n == 0 || (*l)[n-1].term != t {
		*l = append(*l, termStart{index: i, term: t})
	}
}

// of is the term of the entry at i, which the list must cover.
func (l termList) of(i core.LogIndex) core.Term {
	n := sort.Search(len(l), func(k int) bool { return l[k].index > i })
	if n == 0 {
		return 0
	}
	return l[n-1].term
}

// after is the first index whose term is greater than t, or none when there is none.
func (l termList) after(t core.Term, none core.LogIndex) core.LogIndex {
	n := sort.Search(len(l), func(k int) bool { return l[k].term > t })
	if n == len(l) {
		return none
	}
	return l[n].index
}

// truncate forgets the entries at from and after it.
func (l *termList) truncate(from core.LogIndex) {
	for n := len(*l); n > 0 && (*l)[n-1].index >= from; n-- {
		*l = (*l)[:n-1]
	}
}

// trim forgets the entries before first.
func (l *termList) trim(first core.LogIndex) {
	for len(*l) > 1 && (*l)[1].index <= first {
		*l = (*l)[1:]
	}
	if len(*l) > 0 && (*l)[0].index < first {
		(*l)[0].index = first
	}
}

// between is a copy of the part that covers the entries from first to before next.
func (l termList) between(first, next core.LogIndex) termList {
	var part termList
	for i, s := range l {
		if s.index >= next {
			break
		}
		if i+1 < len(l) && l[i+1].index <= first {
			continue
		}
		part = append(part, termStart{index: max(s.index, first), term: s.term})
	}
	return part
}
