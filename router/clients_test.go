package router_test

import (
	"fmt"
	"slices"
	"testing"

	"polylog/router"
)

func TestClientsAreListedInPages(t *testing.T) {
	var c router.Clients
	leave := map[string]func(){}
	for i := range 5 {
		name := fmt.Sprint("c", i)
		leave[name] = c.Add(func(k *router.Client) { k.Protocol, k.ClientID = "mqtt", name })
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
	var none *router.Clients
	none.Add(nil)()
	if page, more := none.List(0, 1, nil); len(page) > 0 || more {
		t.Fatal("a nil one has connections")
	}
}
