// Package admin is how nodes, and people by the command line, see and change who takes
// part in a cluster: joining, removing, stopping, health. It is one service on the
// node-to-node network, one request and one answer a stream. Any node takes any request
// and passes it on to the node that can answer it.
//
// Messages are JSON: they are few, nodes and command lines of different versions read
// each other's, and what a person asks for as JSON is what is sent.
package admin
