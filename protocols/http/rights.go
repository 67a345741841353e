package httpd

import "polylog/router"

// getRights says what the caller may do with whatever has the name of the path, in the call's namespace:
// the rights go by names, not by kinds, and it need not be there. A page asks before it offers something.
func getRights(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	n := c.name("name")
	may := func(op router.Operation) bool { return c.may(op, router.ResourceQueue, n) == nil }
	return c.answer(200, struct {
		Name      string `json:"name"`
		Configure bool   `json:"configure"`
		Write     bool   `json:"write"`
		Read      bool   `json:"read"`
	}{n.Name, may(router.OpCreate), may(router.OpWrite), may(router.OpRead)})
}
