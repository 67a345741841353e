package httpd

import (
	"time"

	"polylog/core"
	"polylog/router"
)

// namespaceJSON is a namespace in answers.
type namespaceJSON struct {
	Name    string     `json:"name"`
	Created *time.Time `json:"created,omitempty"` // the default one was never created
}

func listNamespaces(c *call) error {
	all, err := c.router.Namespaces()
	if err != nil {
		return err
	}
	answer := struct {
		Namespaces []namespaceJSON `json:"namespaces"`
	}{Namespaces: []namespaceJSON{}}
	for _, n := range all {
		if !n.Deleted && c.may(router.OpDescribe, router.ResourceNamespace, core.Name{Name: n.Name}) == nil {
			answer.Namespaces = append(answer.Namespaces, namespaceJSON{n.Name, timeOrNil(n.Created)})
		}
	}
	return c.answer(200, answer)
}

func putNamespace(c *call) error {
	if err := c.may(router.OpCreate, router.ResourceNamespace, core.Name{Name: c.namespace}); err != nil {
		return err
	}
	if old, err := c.router.Namespace(c.namespace); err == nil && !old.Deleted {
		return c.answer(200, namespaceJSON{old.Name, timeOrNil(old.Created)}) // what protocols keep with it stays
	}
	if _, err := c.router.CreateNamespace(c.ctx, c.principal, c.namespace, nil); err != nil {
		return err
	}
	if err := c.router.Sync(c.ctx); err != nil {
		return err
	}
	n, err := c.router.Namespace(c.namespace)
	if err != nil {
		return err
	}
	return c.answer(201, namespaceJSON{n.Name, timeOrNil(n.Created)})
}

func deleteNamespace(c *call) error {
	if err := c.router.DeleteNamespace(c.ctx, c.principal, c.namespace); err != nil {
		return err
	}
	return c.noContent()
}
