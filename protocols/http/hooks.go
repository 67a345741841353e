package httpd

import (
	"encoding/json"
	"time"

	"polylog/core"
	"polylog/protocols/http/front"
	"polylog/protocols/http/hook"
	"polylog/protocols/http/subscription"
	"polylog/router"
)

// hookSpec is what a hook's owner says.
type hookSpec struct {
	hook.Settings
	// Secrets are what requests are believed by. Left out: those that are there stay, and a new
	// hook gets one, which is in the answer, this once.
	Secrets []string `json:"secrets,omitempty"`
}

// hookJSON is a hook in answers.
type hookJSON struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	Created   time.Time `json:"created"`
	Path      string    `json:"path"`              // where its senders post to
	Owner     string    `json:"owner,omitempty"`   // user who has set it: its messages count as written by that one
	Refused   string    `json:"refused,omitempty"` // why the owner may not write to the topic: nothing is stored
	hook.Settings
	Secrets []subscription.SecretInfo `json:"secrets"`
	Secret  string                    `json:"secret,omitempty"` // a new one, this once
}

// keptHook is a hook with what is in its texts.
type keptHook struct {
	*router.Hook
	settings hook.Settings
	owner    router.Owner
	secrets  subscription.Secrets
}

// ownedSettings are a hook's settings as the log keeps them.
type ownedSettings struct {
	*hook.Settings
	Owner *router.Owner `json:"owner,omitempty"` // nil: nobody in particular
}

// readHook reads what the log keeps of a hook. Of a new one nothing is there yet.
func readHook(h *router.Hook) (k keptHook, err error) {
	k.Hook = h
	if h.Revision == 0 {
		return k, nil
	}
	if err = json.Unmarshal([]byte(h.Settings), &ownedSettings{&k.settings, &k.owner}); err == nil {
		err = json.Unmarshal([]byte(h.Secrets), &k.secrets)
	}
	return k, err
}

// write puts what was changed into the texts that the log keeps.
func (k *keptHook) write() error {
	owned := ownedSettings{&k.settings, &k.owner}
	if k.owner == (router.Owner{}) {
		owned.Owner = nil
	}
	settings, err := json.Marshal(&owned)
	if err != nil {
		return err
	}
	secrets, err := json.Marshal(&k.secrets)
	k.Settings, k.Hook.Secrets = string(settings), string(secrets)
	return err
}

// principal is who writes what a sender's host has sent.
func (k *keptHook) principal(host string) router.Principal {
	return router.Behalf(k.owner, "hooks", host)
}

func (c *call) jsonOfHook(k *keptHook) hookJSON {
	j := hookJSON{
		Name: k.Name.Name, Namespace: k.Name.Namespace, Created: front.Time(k.Created), Path: hookPath(k.Name),
		Owner: k.owner.User, Settings: k.settings, Secrets: []subscription.SecretInfo{},
	}
	topic := router.Resource{Kind: router.ResourceTopic, Name: core.Name{Namespace: k.Name.Namespace, Name: k.settings.Topic}}
	if err := c.router.Authorize(k.principal(c.principal.Host), router.OpWrite, topic); err != nil {
		j.Refused = err.Error()
	}
	for _, one := range k.secrets.Current(c.srv.opts.now()) {
		j.Secrets = append(j.Secrets, one.Info())
	}
	return j
}

func listHooks(c *call) error {
	if err := c.onlyQuery("limit", "cursor", "search"); err != nil {
		return err
	}
	found := c.search()
	all, next, err := pageOf(c, c.router.Hooks, func(h *router.Hook) (name string, wanted bool) {
		return h.Name.Name, found(h.Name.Name) && c.may(router.OpDescribe, router.ResourceGroup, h.Name) == nil
	})
	if err != nil {
		return err
	}
	answer := struct {
		Hooks []hookJSON `json:"hooks"`
		Next  string     `json:"next,omitempty"`
	}{Hooks: []hookJSON{}, Next: next}
	for _, h := range all {
		k, err := readHook(h)
		if err != nil {
			return err
		}
		answer.Hooks = append(answer.Hooks, c.jsonOfHook(&k))
	}
	return c.answer(200, answer)
}

func getHook(c *call) error {
	if err := c.onlyQuery(); err != nil {
		return err
	}
	n := c.name("hook")
	if err := c.may(router.OpDescribe, router.ResourceGroup, n); err != nil {
		return err
	}
	h, err := c.router.Hook(c.ctx, n)
	if err != nil {
		return err
	}
	k, err := readHook(h)
	if err != nil {
		return err
	}
	return c.answer(200, c.jsonOfHook(&k))
}

// putHook creates a hook, or changes the one that is there to what the body says. Only its
// secrets stay where the body has none.
func putHook(c *call) error {
	var spec hookSpec
	if err := c.definition(&spec); err != nil {
		return err
	}
	s := &spec.Settings
	s.EnsureDefaults()
	if err := s.Check(c.srv.front.MaxBody()); err != nil {
		return err
	}
	if err := router.CheckTopicName(s.Topic); err != nil {
		return err
	}
	if n := len(spec.Secrets); n > subscription.MaxSecrets {
		return invalid("secrets are %d, at most %d are allowed", n, subscription.MaxSecrets)
	}
	for _, text := range spec.Secrets {
		if err := s.CheckSecret(text); err != nil {
			return err
		}
	}
	// What senders publish by the hook counts as done by whoever has set it.
	if err := c.may(router.OpWrite, router.ResourceTopic, core.Name{Namespace: c.namespace, Name: s.Topic}); err != nil {
		return err
	}
	created, generated := false, ""
	k, err := c.changeHook(func(k *keptHook) (err error) {
		created, generated = k.Revision == 0, ""
		if len(spec.Secrets) > 0 {
			k.secrets.Signing = nil
			for _, text := range spec.Secrets {
				k.secrets.Signing = append(k.secrets.Signing, subscription.Secret{Key: text})
			}
		}
		if k.settings.Preset != s.Preset && len(spec.Secrets) == 0 {
			one, err := s.NewSecret()
			if err != nil {
				return err
			}
			k.secrets.Signing, generated = []subscription.Secret{one}, one.Key
		}
		k.settings, k.owner = *s, c.router.OwnerOf(c.principal)
		return nil
	})
	if err != nil {
		return err
	}
	j := c.jsonOfHook(k)
	j.Secret = generated
	if created {
		return c.answer(201, j)
	}
	return c.answer(200, j)
}

// changeHook changes the hook of the path, whoever else does so at the same time.
func (c *call) changeHook(change func(*keptHook) error) (*keptHook, error) {
	var kept keptHook
	_, err := c.router.ChangeHook(c.ctx, c.principal, c.name("hook"), func(h *router.Hook) (err error) {
		if kept, err = readHook(h); err != nil {
			return err
		}
		if err = change(&kept); err != nil {
			return err
		}
		return kept.write()
	})
	return &kept, err
}

// rotateHook gives a hook a new secret. For a while requests are believed by the old ones, too.
func rotateHook(c *call) error {
	var spec rotateSpec
	if err := c.definition(&spec); err != nil {
		return err
	}
	keep, err := spec.keep()
	if err != nil {
		return err
	}
	generated := ""
	k, err := c.changeHook(func(k *keptHook) (err error) {
		if k.Revision == 0 {
			return core.E(core.NotFound, "hook %s does not exist", k.Name)
		}
		next := subscription.Secret{Key: spec.Secret}
		if generated = ""; spec.Secret == "" {
			if next, err = k.settings.NewSecret(); err != nil {
				return err
			}
			generated = next.Key
		} else if err := k.settings.CheckSecret(spec.Secret); err != nil {
			return err
		}
		now := c.srv.opts.now()
		return k.secrets.Rotate(next, now, now+keep)
	})
	if err != nil {
		return err
	}
	j := c.jsonOfHook(k)
	j.Secret = generated
	return c.answer(200, j)
}

func deleteHook(c *call) error {
	if err := c.router.DeleteHook(c.ctx, c.principal, c.name("hook")); err != nil {
		return err
	}
	return c.noContent()
}
