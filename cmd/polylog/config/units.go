package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as 512, 64KiB, 64MiB, 1GiB or 2TiB.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  Size
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String is the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && u.bytes > 1 && s%u.bytes == 0 {
			return fmt.Sprintf("%d%s", s/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalText reads what String writes.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), Size(1)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimSpace(d), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return fmt.Errorf("%q is not a size such as 64MiB (units B, KiB, MiB, GiB, TiB)", text)
	}
	if n > uint64(math.MaxInt64/unit) {
		return fmt.Errorf("%q is more than fits", text)
	}
	*s = Size(n) * unit
	return nil
}
