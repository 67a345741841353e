package harness

import (
	"fmt"
	"os"
	"strings"
)

// WriteSection replaces the part of a file that a program writes, and leaves what people wrote as it
// is. The part lies between the lines <!-- begin NAME --> and <!-- end NAME -->.
func WriteSection(file, name, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", name), fmt.Sprintf("<!-- end %s -->\n", name)
	before, rest, ok := strings.Cut(string(old), begin)
	if !ok {
		return fmt.Errorf("%s has no line %q", file, strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return fmt.Errorf("%s has no line %q", file, strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+strings.Trim(text, "\n")+"\n\n"+end+after), 0o644)
}
