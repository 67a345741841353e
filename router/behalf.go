package router

// Owner is the user in whose name something goes on while nobody is logged in for it: who has set it
// last. The zero Owner is nobody: it was set while there were no users, and may go on.
type Owner struct {
	User    string `json:"user"`
	Created int64  `json:"created"` // of the user, in ms: another one of that name owns nothing
}

// OwnerOf is the owner of what p sets.
func (r *Router) OwnerOf(p Principal) Owner {
	if p.itself || p.trusted || !r.HasUsers() {
		return Owner{}
	}
	u := r.state.User(p.Name)
	if !p.isStill(u) {
		return Owner{User: p.Name, Created: -1} // it is gone since, and may do nothing
	}
	return Owner{u.Name, u.Created}
}

// Behalf is the principal of what goes on in the name of an owner, for a purpose and a host: it may
// do what the owner may do now, whoever knows its password.
func Behalf(o Owner, purpose, host string) Principal {
	if o == (Owner{}) {
		return Trusted(purpose, host)
	}
	return Principal{Name: o.User, Host: host, behalf: true, created: o.Created}
}
