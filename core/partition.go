package core

import "encoding/binary"

// PartitionOf is the partition, of n, that records with this key go to: Kafka's clients'
// choice, so that a key's records stay together whatever protocol they come by.
func PartitionOf(key []byte, n int) int { return int(murmur2(key)&0x7fffffff) % n }

// murmur2 is the hash that Kafka's clients take (org.apache.kafka.common.utils.Utils.murmur2):
// Austin Appleby's MurmurHash2 with a seed of Kafka's own.
func murmur2(b []byte) uint32 {
	const m, seed = 0x5bd1e995, 0x9747b28c
	h := uint32(seed) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
