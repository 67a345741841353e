package front

import "bytes"

// MoreThan reports whether a text in JSON has more than most commas that are no deeper than in so many brackets: an array there
// has more elements than that. It is asked before the text is decoded, for two bytes of an array may become hundreds in memory.
// What is no JSON is the decoder's to refuse.
func MoreThan(b []byte, most, depth int) bool {
	if bytes.Count(b, []byte{','}) <= most {
		return false // as mostly; and to find that out costs next to nothing
	}
	at, commas, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++ // whatever it is, it does not end the string
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			at++
		case c == ']' || c == '}':
			at--
		case c == ',' && at <= depth:
			if commas++; commas > most {
				return true
			}
		}
	}
	return false
}
