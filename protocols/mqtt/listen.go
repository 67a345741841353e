package mqtt

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"

	"polylog/core/accept"
)

// accept serves a listener until it is closed.
func (s *Server) accept(l net.Listener) {
	accept.Loop(l, s.ctx.Done(), s.log, func(nc net.Conn) {
		c := newConn(s, nc)
		if !s.register(c) {
			_ = nc.Close()
			return
		}
		s.wg.Go(c.serve)
	})
}

// serveWebSocket serves a listener for WebSocket (section 6) until it is closed.
func (s *Server) serveWebSocket(l net.Listener) {
	up := websocket.Upgrader{
		Subprotocols:    []string{"mqtt", "mqttv3.1"},
		ReadBufferSize:  1 << 10,
		WriteBufferPool: &wsBuffers,
		CheckOrigin:     func(*http.Request) bool { return true }, // a device or page from anywhere, as with TCP
	}
	h := http.Server{
		ReadHeaderTimeout: s.opts.ConnectTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := up.Upgrade(w, r, nil)
			if err != nil {
				return // it has answered
			}
			nc := &wsConn{Conn: ws.NetConn(), ws: ws}
			c := newConn(s, nc)
			if !s.register(c) {
				_ = nc.Close()
				return
			}
			s.wg.Add(1)
			defer s.wg.Done()
			c.serve()
		}),
	}
	if err := h.Serve(l); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("mqtt websocket listener ended", "err", err)
	}
	_ = h.Close() // connections that did not upgrade yet
}

var wsBuffers sync.Pool // write buffers are lent while a message is written

// wsConn is the byte stream that a WebSocket's binary messages are; packets need not begin
// or end with them (section 6.0).
type wsConn struct {
	net.Conn
	ws *websocket.Conn
	r  io.Reader // of the message at hand; nil: none
}

var errTextMessage = errors.New("a WebSocket message that is not binary") // section 6.0, MQTT-6.0.0-1

// Read implements io.Reader.
func (c *wsConn) Read(p []byte) (int, error) {
	for {
		if c.r == nil {
			kind, r, err := c.ws.NextReader()
			if err != nil {
				return 0, err
			}
			if kind != websocket.BinaryMessage {
				return 0, errTextMessage
			}
			c.r = r
		}
		n, err := c.r.Read(p)
		if errors.Is(err, io.EOF) {
			c.r, err = nil, nil
			if n == 0 {
				continue
			}
		}
		return n, err
	}
}

// Write implements io.Writer.
func (c *wsConn) Write(p []byte) (int, error) {
	if err := c.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
