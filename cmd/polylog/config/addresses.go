package config

import (
	"fmt"
	"slices"
	"strings"
)

// Addresses are places to connect to, written host:port,host:port.
type Addresses []string

// UnmarshalText reads what String writes; an empty text means none.
func (a *Addresses) UnmarshalText(text []byte) error {
	var all Addresses
	for addr := range strings.SplitSeq(string(text), ",") {
		addr = strings.TrimSpace(addr)
		if addr == "" {
			continue
		}
		if err := checkAddress(addr, true); err != nil {
			return err
		}
		if slices.Contains(all, addr) {
			return fmt.Errorf("%q is named twice", addr)
		}
		all = append(all, addr)
	}
	*a = all
	return nil
}

// String is the addresses with commas between them.
func (a Addresses) String() string { return strings.Join(a, ",") }
