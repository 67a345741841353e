package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/router"
)

// describeUserSCRAMCredentials tells by what mechanisms users can log in (KIP-554). Null means all users;
// so does an empty list, as in Kafka.
func describeUserSCRAMCredentials(ctx context.Context, c *call, req *kmsg.DescribeUserSCRAMCredentialsRequest) *kmsg.DescribeUserSCRAMCredentialsResponse {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	if c.mayUsers(router.OpDescribe) != nil {
		resp.ErrorCode = codeClusterAuthorizationFailed
		return resp
	}
	c.catchUp(ctx)
	if len(req.Users) == 0 {
		for _, u := range c.srv.router.Users() {
			if len(u.Credentials) == 0 {
				continue
			}
			if !c.grow(ctx, 2*elementBytes+len(u.Name)) {
				break
			}
			resp.Results = append(resp.Results, describedCredentials(u.Name, u))
		}
		return resp
	}
	asked := map[string]int{}
	for i := range req.Users {
		asked[req.Users[i].Name]++
	}
	seen := once[string]{}
	for i := range req.Users {
		name := req.Users[i].Name
		if !seen.first(name) {
			continue
		}
		if !c.grow(ctx, 3*elementBytes+2*len(name)) {
			break
		}
		r := describedCredentials(name, c.srv.router.User(name))
		if asked[name] > 1 {
			r = kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			r.User, r.ErrorCode = name, codeDuplicateResource
			r.ErrorMessage = new("Cannot describe SCRAM credentials for the same user twice in a single request: " + name)
		}
		resp.Results = append(resp.Results, r)
	}
	return resp
}

func describedCredentials(name string, u *router.User) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	r.User = name
	if u == nil || len(u.Credentials) == 0 {
		r.ErrorCode = codeResourceNotFound
		r.ErrorMessage = new("Attempt to describe a user credential that does not exist: " + name)
		return r
	}
	for i := range u.Credentials {
		r.CredentialInfos = append(r.CredentialInfos, kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{
			Mechanism: int8(u.Credentials[i].Mechanism), Iterations: int32(u.Credentials[i].Iterations),
		})
	}
	return r
}

// mayUsers is nil when the client has the right for op on users.
func (s *session) mayUsers(op router.Operation) error {
	return s.srv.router.Authorize(s.principal(), op, router.Resource{Kind: router.ResourceUser})
}
