package rest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Servers are base addresses of HTTP interfaces, such as http://127.0.0.1:8080.
type Servers []string

// Set reads host:port, or http://host:port and https://host:port, separated by commas. It
// implements pflag.Value.
func (s *Servers) Set(text string) error {
	var all Servers
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSuffix(strings.TrimSpace(one), "/")
		if one == "" {
			continue
		}
		if !strings.Contains(one, "://") {
			one = "http://" + one
		}
		u, err := url.Parse(one)
		if err != nil {
			return fmt.Errorf("%q is no address: want host:port, or http://host:port", one)
		}
		_, port, err := net.SplitHostPort(u.Host)
		bare := u.Path == "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
		if u.Scheme != "http" && u.Scheme != "https" || !bare || u.Scheme == "http" && (err != nil || port == "") || u.Hostname() == "" {
			return fmt.Errorf("%q is no address: want host:port, or http://host:port", one)
		}
		all = append(all, one)
	}
	*s = all
	return nil
}

// String is the addresses with commas between them.
func (s *Servers) String() string { return strings.Join(*s, ",") }

// Type implements pflag.Value.
func (*Servers) Type() string { return "addresses" }
