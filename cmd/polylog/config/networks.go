package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// Networks are ranges of addresses, written as 10.0.0.0/8, or one address, separated by commas.
type Networks []netip.Prefix

// String is what UnmarshalText reads.
func (n Networks) String() string {
	all := make([]string, len(n))
	for i, p := range n {
		all[i] = p.String()
	}
	return strings.Join(all, ",")
}

// UnmarshalText reads what String writes.
func (n *Networks) UnmarshalText(text []byte) error {
	*n = nil
	for one := range strings.SplitSeq(string(text), ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		p, err := netip.ParsePrefix(one)
		if err != nil {
			ip, ipErr := netip.ParseAddr(one)
			if ipErr != nil || ip.Zone() != "" {
				return fmt.Errorf("%q is not a network such as 10.0.0.0/8, nor an address", one)
			}
			p = netip.PrefixFrom(ip, ip.BitLen())
		}
		if p.Addr().Is4In6() {
			return fmt.Errorf("%q is an IPv4 network in an IPv6 one: write it as 10.0.0.0/8", one)
		}
		*n = append(*n, p.Masked())
	}
	return nil
}
