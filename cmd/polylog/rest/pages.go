package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
)

// maxPage is the most that a page of the interface has.
const maxPage = 1000

// Each calls fn for each object of a list, page after page, up to limit of them; 0 means all. key is the name
// of the list in its answers.
func (c *Client) Each(ctx context.Context, path string, query url.Values, key string, limit int, fn func(json.RawMessage) error) error {
	q := url.Values{}
	maps.Copy(q, query)
	for n := 0; ; {
		page := maxPage
		if limit > 0 {
			page = min(page, limit-n)
		}
		q.Set("limit", strconv.Itoa(page))
		var answer map[string]json.RawMessage
		if err := c.Get(ctx, path, q, &answer); err != nil {
			return err
		}
		var all []json.RawMessage
		if err := json.Unmarshal(answer[key], &all); err != nil {
			return fmt.Errorf("the answer has no list of %s; is the broker a Polylog of this version? %w", key, err)
		}
		for _, one := range all {
			if err := fn(one); err != nil {
				return err
			}
			n++
		}
		var next string
		if text, ok := answer["next"]; ok {
			if err := json.Unmarshal(text, &next); err != nil {
				return err
			}
		}
		if next == "" || limit > 0 && n >= limit {
			return nil
		}
		q.Set("cursor", next)
	}
}
