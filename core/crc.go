package core

import "hash/crc32"

// CombineCRC is the CRC32C of a followed by b, from their checksums and b's length in
// bytes, at most 4 GiB: without reading either. It takes below a microsecond.
//
// A CRC is a polynomial's remainder, and appending n bytes multiplies a's by x^8n; the
// bits that a CRC inverts at its ends cancel out. a may as well be the state in which
// crc32.Update goes on.
func CombineCRC(a, b uint32, n int) uint32 {
	for k := 3; n > 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			a = mulCRC(crcPowers[k], a)
		}
	}
	return a ^ b
}

// crcPowers[k] is x^(2^k) modulo the polynomial of CRC32C.
var crcPowers = func() (p [36]uint32) {
	p[0] = 1 << 30 // x: the highest bit is x^0
	for k := 1; k < len(p); k++ {
		p[k] = mulCRC(p[k-1], p[k-1])
	}
	return p
}()

// mulCRC is a times b modulo the polynomial of CRC32C.
func mulCRC(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		product ^= b & -(a >> 31)
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}
