// Package proto is the conversation between the runner and a client under test. Every
// client is a small program, a driver, in the client's own language; the runner speaks
// to its standard input and output in lines of words:
//
//	runner → driver   ID OP key=value …
//	driver → runner   ID ok key=value …      the operation's outcome, once
//	                  ID err free text
//	                  ID unsupported         the client library has no such thing
//	                  ! assigned member=m parts=t-0,t-1      a member's whole assignment, now
//	                  ! rec member=m part=t-0 offset=7 value=v7
//
// Operations on one driver may overlap. Values hold no spaces. This is the Go drivers'
// side; clients/java, clients/python and clients/node have the same in their languages.
//
//	hello                                     → client= version=
//	produce topic codec idempotent parts from count [ts] [member]
//	    record i: partition i%parts, key ki, value vi and 100 dots, header n=i, timestamp ts+i
//	consume topic part count offset|time      → recs=offset:value,…
//	join member group topic [instance] [assignor]    commits what it has shown
//	leave member                              closes it and answers when that is done
//	create topic parts [config=k:v]  delete topic  topics → topics=  describe topic → parts=
//	addparts topic total  getconfig topic key → value=  setconfig topic key value
//	groups → groups=   describegroup group → state= members=
//	offsets group topic → offsets=p:o,…   setoffset group topic part offset   deletegroup group
//	deleterecords topic part before → low=   bounds topic part → low= high=
package proto

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Session is the session time-out of members, and the rebalance time-out where a library has
// one: members leave by themselves, so it only has to be longer than a slow machine makes
// anything take. The drivers in other languages have the same.
const Session = 30 * time.Second

// ErrUnsupported is the outcome of an operation that the library does not have.
var ErrUnsupported = errors.New("unsupported")

// Args are the words of an operation or an answer.
type Args map[string]string

// Int is the number under a key, or 0 without one.
func (a Args) Int(key string) int64 {
	n, _ := strconv.ParseInt(a[key], 10, 64) // the runner writes numbers where there should be some
	return n
}

// Has tells whether the key is there.
func (a Args) Has(key string) bool { _, ok := a[key]; return ok }

func (a Args) String() string {
	keys := make([]string, 0, len(a))
	for k := range a {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var s strings.Builder
	for _, k := range keys {
		s.WriteString(" " + k + "=" + a[k])
	}
	return s.String()
}

// Parse reads words back.
func Parse(words []string) Args {
	a := Args{}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			a[k] = v
		}
	}
	return a
}

// Driver serves operations.
type Driver struct {
	Bootstrap string
	Ops       map[string]func(Args) (Args, error)

	mu sync.Mutex // one line at a time on standard output
}

// Run serves standard input until it ends.
func (d *Driver) Run() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) < 2 {
			continue
		}
		go d.serve(words[0], words[1], Parse(words[2:]))
	}
}

func (d *Driver) serve(id, op string, a Args) {
	f := d.Ops[op]
	if f == nil {
		d.say(id + " unsupported")
		return
	}
	out, err := f(a)
	switch {
	case errors.Is(err, ErrUnsupported):
		d.say(id + " unsupported")
	case err != nil:
		d.say(id + " err " + strings.ReplaceAll(err.Error(), "\n", " "))
	default:
		d.say(id + " ok" + out.String())
	}
}

func (d *Driver) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(os.Stdout, line)
}

// Assigned tells the runner a member's whole assignment.
func (d *Driver) Assigned(member string, parts []string) {
	slices.Sort(parts)
	d.say("! assigned" + Args{"member": member, "parts": strings.Join(parts, ",")}.String())
}

// Rec tells the runner of a record that a member was given.
func (d *Driver) Rec(member, topic string, part int32, offset int64, value []byte) {
	d.say("! rec" + Args{
		"member": member, "part": topic + "-" + strconv.Itoa(int(part)),
		"offset": strconv.FormatInt(offset, 10), "value": Name(value),
	}.String())
}

// Key is ki.
func Key(i int64) []byte { return []byte("k" + strconv.FormatInt(i, 10)) }

// Value is vi and a hundred dots, so that codecs find something to do.
func Value(i int64) []byte {
	return []byte("v" + strconv.FormatInt(i, 10) + strings.Repeat(".", 100))
}

// Header is the value of record i's header, n.
func Header(i int64) []byte { return []byte(strconv.FormatInt(i, 10)) }

// Name is a value without its dots.
func Name(value []byte) string { return strings.TrimRight(string(value), ".") }

// Itoa writes a number as the lines want it.
func Itoa[N int | int32 | int64](n N) string { return strconv.FormatInt(int64(n), 10) }
