package kafka

// session is what a connection knows about its client. Fields are written by the
// reader goroutine only, before the requests that depend on them start.
type session struct {
	srv  *Server
	conn *conn

	valid           bool // a well-formed request has come: larger frames are welcome
	softwareName    string
	softwareVersion string
}
