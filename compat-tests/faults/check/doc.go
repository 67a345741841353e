// Package check judges what clients were told and what replicas hold: whether operations on single
// values were linearizable, and whether logs are the same. It knows no broker.
package check
