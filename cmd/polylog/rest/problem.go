package rest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Problem is a refusal: what the broker says of it (RFC 9457).
type Problem struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
	Retryable bool   `json:"retryable"`
	// Results are those of each message, where all were refused.
	Results json.RawMessage `json:"results"`
}

// Error is what the broker says, or the status in words.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return fmt.Sprintf("the answer is %d %s", p.Status, http.StatusText(p.Status))
}

// maxProblem bounds how much of a refusal is read, in bytes: publishing refuses each message.
const maxProblem = 4 << 20

func problemOf(resp *http.Response) error {
	p := &Problem{}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch {
	case err == nil && kind == "application/problem+json":
		_ = json.Unmarshal(b, p) // a broken one says as much as none
	case resp.StatusCode == http.StatusNotFound:
		p.Detail = fmt.Sprintf("%s is no HTTP interface of a Polylog", resp.Request.URL.Host)
	case resp.StatusCode < 400:
		p.Detail = fmt.Sprintf("%s leads somewhere else: %s", resp.Request.URL.Host, resp.Header.Get("Location"))
	}
	p.Status = resp.StatusCode
	return p
}
