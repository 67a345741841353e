package router_test

import (
	"fmt"
	"slices"
	"testing"

	"polylog/router"
)

func TestClientsAreListedInPages(t *testing.T) {
	var c router.Clients
	var closed []string
	leave := map[string]func(){}
	for i := range 5 {
		name := fmt.Sprint("c", i)
		leave[name] = c.Add(func(k *router.Client) { k.Protocol, k.ClientID = "mqtt", name }, func(why string) { closed = append(closed, name+" "+why) })
	}
	leave["c2"]()
	leave["c2"]() // twice is once
	var ids []string
	var after uint64
	for more := true; more; {
		var page []router.Client
		page, more = c.List(after, 2, func(k *router.Client) bool { return k.ClientID != "c1" })
		for _, k := range page {
			ids = append(ids, k.ClientID)
			after = k.ID
		}
	}
	if want := []string{"c0", "c3", "c4"}; !slices.Equal(ids, want) {
		t.Fatalf("listed %v, want %v", ids, want)
	}
	if !c.Close(after, "bye") || c.Close(3, "bye") || c.Close(99, "bye") {
		t.Fatal("closed what is not there, or not what is")
	}
	if !slices.Equal(closed, []string{"c4 bye"}) {
		t.Fatalf("closed %v", closed)
	}
	var none *router.Clients
	none.Add(nil, nil)()
	if page, more := none.List(0, 1, nil); len(page) > 0 || more || none.Close(1, "") {
		t.Fatal("a nil one has connections")
	}
}
