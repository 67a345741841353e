package kafka

import (
	"sync"
	"sync/atomic"

	"polylog/core"
	"polylog/router"
)

// The bits of "authorized operations" fields are the operations of Kafka's ACLs: bit n
// for the operation with code n.
const (
	aclRead            = 3
	aclWrite           = 4
	aclCreate          = 5
	aclDelete          = 6
	aclAlter           = 7
	aclDescribe        = 8
	aclClusterAction   = 9
	aclDescribeConfigs = 10
	aclAlterConfigs    = 11
	aclIdempotentWrite = 12
)

// aclBit pairs one of our rights with the bits it gives.
type aclBit struct {
	op   router.Operation
	bits int32
}

var topicBits = []aclBit{
	{router.OpRead, 1 << aclRead},
	{router.OpWrite, 1 << aclWrite},
	{router.OpCreate, 1 << aclCreate},
	{router.OpDelete, 1 << aclDelete},
	{router.OpAlter, 1 << aclAlter},
	{router.OpDescribe, 1 << aclDescribe},
	{router.OpDescribeConfigs, 1 << aclDescribeConfigs},
	{router.OpAlterConfigs, 1 << aclAlterConfigs},
}

var clusterBits = []aclBit{
	{router.OpCreate, 1 << aclCreate},
	{router.OpAlter, 1<<aclAlter | 1<<aclClusterAction},
	{router.OpDescribe, 1 << aclDescribe},
	{router.OpDescribeConfigs, 1 << aclDescribeConfigs},
	{router.OpAlterConfigs, 1 << aclAlterConfigs},
	{router.OpWrite, 1 << aclIdempotentWrite},
}

func (s *session) topicOperations(name core.Name) (bits int32) {
	for _, b := range topicBits {
		if s.may(b.op, name) == nil {
			bits |= b.bits
		}
	}
	return bits
}

func (s *session) clusterOperations() (bits int32) {
	for _, b := range clusterBits {
		if s.mayCluster(b.op) == nil {
			bits |= b.bits
		}
	}
	return bits
}

// eachAtOnce is how many of a request's parts that wait for the log are under way
// together: they share its flushes.
const eachAtOnce = 16

// each calls fn for 0 to n-1, several at a time, and waits. A panic in fn is the caller's.
func each(n int, fn func(i int)) {
	var wg sync.WaitGroup
	var panicked atomic.Pointer[any]
	next := make(chan int)
	for range min(n, eachAtOnce) {
		wg.Go(func() {
			for i := range next {
				func() {
					defer func() {
						if r := recover(); r != nil {
							panicked.Store(&r)
						}
					}()
					fn(i)
				}()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	if r := panicked.Load(); r != nil {
		panic(*r)
	}
}
