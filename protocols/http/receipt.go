package httpd

import (
	"encoding/base64"
	"hash/crc32"
	"math"

	"polylog/core"
	"polylog/core/wire"
	"polylog/router"
)

// receipt names a delivery. In text it is opaque, and good on any node: version byte,
// partition uvarint, offset uvarint, serial uvarint, attempts uvarint, and the checksum of
// the group and of all that as u32, so that one of another subscription, or from before a
// seek, is told from a good one.
type receipt struct {
	partition int
	attempts  int // failed deliveries before this one
	router.Receipt
}

const receiptVersion = 1

func (r *receipt) encode(group string) string {
	b := wire.AppendUvarint([]byte{receiptVersion}, uint64(r.partition))
	b = wire.AppendUvarint(b, uint64(r.Offset))
	b = wire.AppendUvarint(b, r.Serial)
	b = wire.AppendUvarint(b, uint64(r.attempts))
	return base64.RawURLEncoding.EncodeToString(wire.AppendUint32(b, receiptSum(b, group)))
}

func receiptSum(b []byte, group string) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(group)), crc32.IEEETable, b)
}

// errStale refuses a receipt whose delivery is no longer its holder's.
var errStale = &problem{Status: 409, Code: "stale_receipt", Detail: "the delivery is no longer yours: its lease ended, it was settled, or the subscription was moved"}

func decodeReceipt(text, group string, partitions int) (rc receipt, err error) {
	bad := &problem{Status: 400, Code: "bad_receipt", Detail: "this is no receipt of ours"}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return rc, bad
	}
	r := wire.NewReader(b)
	version := r.Byte()
	rc.partition = int(min(r.Uvarint(), math.MaxInt32))
	rc.Offset, rc.Serial = core.Offset(r.Uvarint()), r.Uvarint()
	rc.attempts = int(min(r.Uvarint(), math.MaxInt32))
	signed := len(b) - r.Len()
	sum := r.Uint32()
	switch {
	case version != receiptVersion || r.Close() != nil || rc.Offset < 0:
		return rc, bad
	case sum != receiptSum(b[:signed], group) || rc.partition >= partitions:
		return rc, errStale
	}
	return rc, nil
}
