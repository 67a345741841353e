package kafka

import (
	"bytes"
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/core"
	"polylog/router"
)

// credentialChange is what is to become of one user's credentials.
type credentialChange struct {
	user string
	put  []router.SaltedPassword
	drop []router.ScramMechanism
	seen once[int8] // mechanisms
	code int16      // why nothing is done
	text string
}

// refuse keeps the first reason.
func (ch *credentialChange) refuse(code int16, text string) {
	if ch.code == codeNone {
		ch.code, ch.text = code, text
	}
}

// alterUserSCRAMCredentials sets and deletes what passwords are verified by, one mechanism at a time
// (KIP-554). Clients have salted the passwords already. Whoever is not there yet is made, without tags or
// rights. A user's changes are made together or not at all.
func alterUserSCRAMCredentials(ctx context.Context, c *call, req *kmsg.AlterUserSCRAMCredentialsRequest) *kmsg.AlterUserSCRAMCredentialsResponse {
	ctx, cancel := within(ctx, 0)
	defer cancel()
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	changes := credentialChanges(req)
	denied := c.mayUsers(router.OpAlter)
	stale := c.fresh(ctx)
	for _, ch := range changes {
		if !c.grow(ctx, 2*elementBytes+2*len(ch.user)) {
			return resp
		}
		switch {
		case denied != nil:
			ch.code, ch.text = codeClusterAuthorizationFailed, denied.Error()
		case stale != nil:
			ch.code, ch.text = adminCode(stale), stale.Error()
		case ch.code == codeNone:
			if err := c.srv.router.AlterCredentials(ctx, c.principal(), ch.user, ch.put, ch.drop); err != nil {
				ch.code, ch.text = credentialCode(err), err.Error()
			}
		}
		r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		r.User, r.ErrorCode, r.ErrorMessage = ch.user, ch.code, nullable(ch.text)
		resp.Results = append(resp.Results, r)
	}
	return resp
}

// credentialChanges are a request's changes by user, in the order in which it names them.
func credentialChanges(req *kmsg.AlterUserSCRAMCredentialsRequest) []*credentialChange {
	var all []*credentialChange
	at := map[string]*credentialChange{}
	find := func(user string, mechanism int8) *credentialChange {
		ch := at[user]
		if ch == nil {
			ch = &credentialChange{user: user, seen: once[int8]{}}
			at[user], all = ch, append(all, ch)
		}
		switch {
		case user == "":
			ch.refuse(codeUnacceptableCredential, "Username must not be empty")
		case mechanism != int8(router.ScramSHA256) && mechanism != int8(router.ScramSHA512):
			ch.refuse(codeUnsupportedSASLMechanism, "Unknown SCRAM mechanism")
		case !ch.seen.first(mechanism):
			ch.refuse(codeDuplicateResource, "A user credential cannot be altered twice in the same request")
		}
		return ch
	}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		ch := find(d.Name, d.Mechanism)
		ch.drop = append(ch.drop, router.ScramMechanism(d.Mechanism))
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		ch := find(u.Name, u.Mechanism)
		ch.put = append(ch.put, router.SaltedPassword{
			Mechanism: router.ScramMechanism(u.Mechanism), Iterations: int(u.Iterations),
			Salt: bytes.Clone(u.Salt), Salted: bytes.Clone(u.SaltedPassword), // the request's end with it
		})
	}
	return all
}

// credentialCode is the code for credentials that were not changed.
func credentialCode(err error) int16 {
	switch core.KindOf(err) {
	case core.Invalid, core.Conflict, core.TooLarge:
		return codeUnacceptableCredential
	case core.NotFound:
		return codeResourceNotFound
	case core.Denied:
		return codeClusterAuthorizationFailed
	default:
		return adminCode(err)
	}
}
