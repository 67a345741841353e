package manage

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A list of things is answered whole, or a page of it: ?page=1&page_size=100&name=x&use_regex=true.
// ?sort=, ?sort_reverse= and ?columns= hold for both. What costs something is looked up only for
// what is shown, unless it is sorted by that.

// entry is a thing of a list.
type entry struct {
	name string // that ?name= looks at, and by which it comes in order
	// load gives the thing; nil where it is gone meanwhile. full says whether to look up what
	// costs something.
	load func(full bool) (object, error)
}

// maxWhole bounds a list that is not asked for in pages, or that is sorted by something else than its order.
const maxWhole = 20_000

// fixed is an entry that needs no look-up.
func fixed(name string, o object) entry {
	return entry{name: name, load: func(bool) (object, error) { return o, nil }}
}

// list answers a list. costly are the columns that cost something.
func (c *call) list(all []entry, costly ...string) (any, error) {
	by := string(c.QueryArgs().Peek("sort"))
	q, err := c.paging()
	if err != nil {
		return nil, err
	}
	total := len(all)
	if q != nil {
		all = q.filter(all)
	}
	filtered := len(all)
	reverse := c.flag("sort_reverse")
	sorted := by == "" || by == "name"
	if sorted && q != nil {
		if reverse && by != "" {
			slices.Reverse(all)
		}
		if all, err = cutPage(q, all); err != nil {
			return nil, err
		}
	}
	if len(all) > maxWhole {
		return nil, badRequest("there are %d of them: ask for pages, by page and page_size, without sort", len(all))
	}
	full := needs(c.columns(), costly) || needs([]string{by}, costly)
	items, err := loadAll(all, full)
	if err != nil {
		return nil, err
	}
	switch {
	case !sorted:
		slices.SortStableFunc(items, func(a, b object) int { return compare(at(a, by), at(b, by)) })
		fallthrough
	case q == nil && by != "":
		if reverse {
			slices.Reverse(items)
		}
	}
	if q == nil {
		return items, nil
	}
	if !sorted {
		if items, err = cutPage(q, items); err != nil {
			return nil, err
		}
	}
	return q.answer(items, filtered, total), nil
}

// page is a page of a list.
type page struct {
	Filtered int      `json:"filtered_count"`
	Count    int      `json:"item_count"`
	Items    []object `json:"items"`
	Page     int      `json:"page"`
	Pages    int      `json:"page_count"`
	Size     int      `json:"page_size"`
	Total    int      `json:"total_count"`
}

// answer is a page of things of which there are total, and filtered that are asked for.
func (q *paging) answer(items []object, filtered, total int) page {
	return page{
		Filtered: filtered, Items: items, Count: len(items), Page: q.page, Pages: q.pages(filtered), Size: q.size, Total: total,
	}
}

// loaders is how many things are looked up at a time.
const loaders = 8

// loadAll looks the things up, and leaves out those that are gone.
func loadAll(all []entry, full bool) ([]object, error) {
	items := make([]object, len(all))
	errs := make([]error, loaders)
	var wg sync.WaitGroup
	for n := range loaders {
		wg.Go(func() {
			for i := n; i < len(all) && errs[n] == nil; i += loaders {
				items[i], errs[n] = all[i].load(full)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(items, func(o object) bool { return o == nil }), nil
}

// paging is what is asked for of a list; nil: all of it.
type paging struct {
	page, size int
	name       string
	match      *regexp.Regexp
}

// maxPage bounds a page.
const maxPage = 500

func (c *call) paging() (*paging, error) {
	text := string(c.QueryArgs().Peek("page"))
	if text == "" {
		return nil, nil
	}
	q := &paging{size: 100, name: string(c.QueryArgs().Peek("name"))}
	var err error
	q.page, err = strconv.Atoi(text)
	sizeText := string(c.QueryArgs().Peek("page_size"))
	if err == nil && sizeText != "" {
		q.size, err = strconv.Atoi(sizeText)
	}
	if err != nil || q.page < 1 || q.size < 1 || q.size > maxPage {
		return nil, &refusal{400, "invalid_pagination_parameters", fmt.Sprintf("Invalid pagination parameters: page number %.20s, page size %.20s", text, cmp.Or(sizeText, "undefined"))}
	}
	if c.flag("use_regex") {
		if q.match, err = regexp.Compile(q.name); err != nil {
			return nil, badRequest("Pagination parameters are invalid")
		}
	}
	return q, nil
}

// filter keeps what the name asks for.
func (q *paging) filter(all []entry) []entry {
	if q.name == "" {
		return all
	}
	return slices.DeleteFunc(all, func(e entry) bool { return !q.wants(e.name) })
}

// wants reports whether a thing of that name is asked for.
func (q *paging) wants(name string) bool {
	if q.match != nil {
		return q.match.MatchString(name)
	}
	return q.name == "" || strings.Contains(strings.ToLower(name), strings.ToLower(q.name))
}

// pages is how many there are of n things: one at least.
func (q *paging) pages(n int) int { return max((n+q.size-1)/q.size, 1) }

func cutPage[T any](q *paging, all []T) ([]T, error) {
	from, to, err := q.window(len(all))
	if err != nil {
		return nil, err
	}
	return all[from:to], nil
}

// window is where the page is in n things.
func (q *paging) window(n int) (from, to int, err error) {
	if q.page > q.pages(n) {
		return 0, 0, &refusal{400, "page_out_of_range", fmt.Sprintf("Page out of range, page: %d page size: %d, len: %d", q.page, q.size, n)}
	}
	from = (q.page - 1) * q.size
	return from, min(from+q.size, n), nil
}

// columns are those that are asked for; none: all.
func (c *call) columns() []string {
	text := string(c.QueryArgs().Peek("columns"))
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// needs reports whether one of the columns is costly, as all together are where any is.
func needs(columns, costly []string) bool {
	if len(columns) == 0 {
		return len(costly) > 0
	}
	for _, c := range columns {
		first, _, _ := strings.Cut(c, ".")
		for _, k := range costly {
			if strings.HasPrefix(first, k) {
				return true
			}
		}
	}
	return false
}

// selected leaves of an answer what ?columns= asks for.
func (c *call) selected(v any) (any, error) {
	columns := c.columns()
	if len(columns) == 0 {
		return v, nil
	}
	if len(columns) > 200 {
		return nil, badRequest("%d columns, at most 200", len(columns))
	}
	switch v := v.(type) {
	case object:
		return pick(v, columns), nil
	case []object:
		for i := range v {
			v[i] = pick(v[i], columns)
		}
	case page:
		for i := range v.Items {
			v.Items[i] = pick(v.Items[i], columns)
		}
	}
	return v, nil
}

// pick is an object with some of its fields, whose paths have dots. It shares what is in them with o, which
// may be everybody's, and writes to nothing of it.
func pick(o object, columns []string) object {
	out := object{}
	for _, path := range slices.Sorted(slices.Values(columns)) { // the whole before its parts
		if !has(o, path) || has(out, path) {
			continue
		}
		v, into := at(o, path), out
		for {
			name, rest, more := strings.Cut(path, ".")
			if !more {
				into[name] = v
				break
			}
			next, ok := into[name].(object)
			if !ok {
				next = object{}
				into[name] = next
			}
			into, path = next, rest
		}
	}
	return out
}

// at is a field by its path; nil where there is none.
func at(o object, path string) any {
	name, rest, more := strings.Cut(path, ".")
	if !more {
		return o[path]
	}
	next, ok := o[name].(object)
	if !ok {
		return nil
	}
	return at(next, rest)
}

// has reports whether there is a field of that path, which may be null.
func has(o object, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	if !more {
		_, ok := o[path]
		return ok
	}
	next, ok := o[name].(object)
	return ok && has(next, rest)
}

// compare orders fields: nothing, then numbers, then text.
func compare(a, b any) int {
	fa, na := numberOf(a)
	fb, nb := numberOf(b)
	rank := func(v any, isNumber bool) int {
		switch {
		case v == nil:
			return 0
		case isNumber:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a, na), rank(b, nb)), cmp.Compare(fa, fb), cmp.Compare(textOf(a, na), textOf(b, nb)))
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint16:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func textOf(v any, isNumber bool) string {
	if v == nil || isNumber {
		return ""
	}
	return fmt.Sprint(v)
}
