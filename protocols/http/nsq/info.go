package nsq

import (
	"net"
	"os"
	"strings"
)

// nsqdVersion is that of the nsqd whose interface this is: clients ask for it to know what there is.
const nsqdVersion = "1.3.0"

// ping says whether the broker can serve.
func ping(c *call) error {
	if h := c.health(); h != healthy {
		send(c.RequestCtx, 500, typeText, []byte(h))
		return nil
	}
	return c.answerOK()
}

const healthy = "OK"

// health is healthy, or why the broker cannot serve.
func (s *Server) health() string {
	if reasons := s.opts.Ready(); len(reasons) > 0 {
		return "NOK - " + strings.Join(reasons, "; ")
	}
	return healthy
}

// infoJSON is what nsqd says of itself. What is about its own protocol, which is not spoken here, is 0; it
// says -1 for a port that it does not have.
type infoJSON struct {
	Version             string `json:"version"`
	BroadcastAddress    string `json:"broadcast_address"`
	Hostname            string `json:"hostname"`
	HTTPPort            int    `json:"http_port"`
	TCPPort             int    `json:"tcp_port"`
	StartTime           int64  `json:"start_time"` // s
	MaxHeartbeat        int64  `json:"max_heartbeat_interval"`
	MaxOutBuffer        int64  `json:"max_output_buffer_size"`
	MaxOutBufferTimeout int64  `json:"max_output_buffer_timeout"`
	MaxDeflateLevel     int    `json:"max_deflate_level"`
	TopologyZone        string `json:"topology_zone"`
	TopologyRegion      string `json:"topology_region"`
	Product             string `json:"product"` // nsqd has none
	ProductVersion      string `json:"product_version"`
}

func info(c *call) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	j := infoJSON{
		Version: nsqdVersion, BroadcastAddress: host, Hostname: host, HTTPPort: -1, TCPPort: -1,
		StartTime: c.started.Unix(), Product: "Polylog", ProductVersion: c.opts.Version,
	}
	if at, ok := c.opts.Listener.Addr().(*net.TCPAddr); ok {
		j.HTTPPort = at.Port
	}
	return c.answer(j)
}
