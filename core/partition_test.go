package core

import "testing"

// The values are those of Kafka's own test of this hash.
func TestPartitionsAreThoseOfKafkaClients(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%s: %d, want %d", key, got, want)
		}
		if p, want := PartitionOf([]byte(key), 7), int(want&0x7fffffff)%7; p != want {
			t.Errorf("%s: partition %d, want %d", key, p, want)
		}
	}
}
