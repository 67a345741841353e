package front

import "time"

// Time is a time in ms since 1970 as JSON can say it, RFC 3339: one that it cannot, before the year 0
// or after 9999, is the nearest that it can. Producers may give any, as those do who take ms for s.
func Time(ms int64) time.Time {
	return time.UnixMilli(min(max(ms, firstTime), lastTime)).UTC()
}

// In ms since 1970.
var (
	firstTime = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	lastTime  = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() - 1
)
