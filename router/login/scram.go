package login

import (
	"github.com/xdg-go/scram"

	"polylog/core"
	"polylog/router/state"
)

// The mechanisms' names (RFC 5802, 7677).
var mechanisms = map[string]state.ScramMechanism{
	"SCRAM-SHA-256": state.ScramSHA256,
	"SCRAM-SHA-512": state.ScramSHA512,
}

// Exchange is one conversation of SCRAM. It is used by one goroutine.
type Exchange struct {
	talk *scram.ServerConversation
	user *state.User // whose credential is used; nil: it cannot succeed
}

// Scram begins a conversation; nil where there is no such mechanism. find finds users.
func (v *Verifier) Scram(mechanism string, find func(name string) *state.User) *Exchange {
	m, ok := mechanisms[mechanism]
	if !ok {
		return nil
	}
	x := &Exchange{}
	lookup := func(name string) (scram.StoredCredentials, error) {
		c := v.fake(name, m)
		if u := find(name); u != nil {
			for i := range u.Credentials {
				if u.Credentials[i].Mechanism == m {
					x.user, c = u, u.Credentials[i]
				}
			}
		}
		return scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(c.Salt), Iters: c.Iterations},
			StoredKey:  c.StoredKey, ServerKey: c.ServerKey,
		}, nil
	}
	s, err := scram.HashGeneratorFcn(hashOf(m)).NewServer(lookup)
	if err != nil { // it has none
		return nil
	}
	x.talk = s.NewConversation()
	return x
}

// Step takes what the client says and gives the answer. done says that it has proved who it is. The
// error is of kind Denied where the proof is wrong, and Invalid for what makes no sense.
func (x *Exchange) Step(data []byte) (reply []byte, done bool, err error) {
	first := x.talk.Username() == ""
	answer, err := x.talk.Step(string(data))
	switch {
	case err != nil && first:
		return nil, false, core.E(core.Invalid, "scram: %v", err)
	case err != nil:
		return nil, false, core.E(core.Denied, "scram: %v", err)
	case x.talk.AuthzID() != "" && x.talk.AuthzID() != x.talk.Username():
		return nil, false, core.E(core.Denied, "scram: user %q cannot act as another one", x.talk.Username())
	}
	return []byte(answer), x.talk.Valid() && x.user != nil, nil
}

// User is whom the client has said to be; after the last step it is.
func (x *Exchange) User() *state.User { return x.user }

// Name is the name that the client has said.
func (x *Exchange) Name() string { return x.talk.Username() }
