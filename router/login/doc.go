// Package login knows passwords: what is stored of them, how one is verified without the cost of
// doing that from the beginning each time, SCRAM, and how fast somebody may guess.
//
// What is stored of a password is SCRAM's keys (RFC 5802), made with many iterations of a hash so
// that whoever gets hold of them has to work for each guess. So has the broker: it bounds how many
// it computes at a time, remembers of each user the password that was right, as a hash under a key
// that only this process knows, and refuses addresses that were wrong too often without computing
// anything.
package login
