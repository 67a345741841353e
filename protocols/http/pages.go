package httpd

// pageOf is a page of a list that read gives in order of names: those that are wanted, as many as the call
// asks for, and the cursor of the next page. A page for which searchSteps of them were looked at is
// short, and has next.
func pageOf[T any](c *call, read func(namespace, after string, limit int) ([]T, error), of func(T) (name string, wanted bool)) (page []T, next string, err error) {
	limit, after, err := c.page()
	if err != nil {
		return nil, "", err
	}
	chunk := limit + 1
	if c.QueryArgs().Has("search") {
		chunk = searchSteps
	}
	for looked := 0; ; {
		all, err := read(c.namespace, after, chunk)
		if err != nil {
			return nil, "", err
		}
		for _, one := range all {
			if len(page) == limit || looked == searchSteps {
				return page, after, nil
			}
			looked++
			name, wanted := of(one)
			if after = name; wanted {
				page = append(page, one)
			}
		}
		if len(all) < chunk {
			return page, "", nil
		}
	}
}
