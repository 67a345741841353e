// Package netsim is a network of this machine's own: hosts with an address each, whose packets
// all go through this process, which loses and delays them as it is told, each direction apart.
//
// A host is a Linux network namespace with a TUN device; processes are started inside it. No
// command, no kernel module beyond tun and no packet filter is needed, nothing leaves the machine,
// and all of it is gone when this process ends. It needs CAP_NET_ADMIN, and a network
// namespace of its own so as not to meet the addresses of the machine.
package netsim
