package amqp

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"polylog/core"
	"polylog/core/message"
	"polylog/protocols/amqp/spec"
	"polylog/router"
)

// What RabbitMQ 3.10.8 was seen to do on the wire, or what is known of 4.3 where that
// differs.

func TestProtocolHeader(t *testing.T) {
	f := start(t, nil)
	for name, header := range map[string]string{
		"bad":      "AMQP\x00\x00\x08\x00",
		"0-8":      "AMQP\x01\x01\x08\x00",
		"1.0 SASL": "AMQP\x03\x01\x00\x00",
		"HTTP":     "GET / HT",
		"TLS":      "\x16\x03\x01\x02\x00\x01\x00\x01",
	} {
		t.Run(name, func(t *testing.T) {
			c := f.dial()
			c.write([]byte(header))
			got, err := io.ReadAll(c.nc)
			if err != nil || !bytes.Equal(got, protocolHeader) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for _, header := range []string{"AMQP\x00\x00\x09\x00", "AMQP\x01\x01\x09\x01", "AMQP\x01\x01\x00\x09"} {
		c := f.dial()
		c.write([]byte(header))
		recv[*spec.ConnectionStart](c, 0)
	}
	f.works()
}

func TestServerProperties(t *testing.T) {
	f := start(t, func(o *Options) { o.ClusterName = "c" })
	c := f.dial()
	c.write(protocolHeader)
	m := recv[*spec.ConnectionStart](c, 0)
	if m.VersionMajor != 0 || m.VersionMinor != 9 || string(m.Mechanisms) != "PLAIN AMQPLAIN ANONYMOUS" || string(m.Locales) != "en_US" {
		t.Errorf("%+v", m)
	}
	for name, want := range map[string]string{"product": "Polylog", "version": "4.3.0", "platform": "Go", "cluster_name": "c"} {
		if v, _ := m.ServerProperties.Get(name); v.Str() != want {
			t.Errorf("%s is %q, want %q", name, v.Str(), want)
		}
	}
	caps, _ := m.ServerProperties.Get("capabilities")
	if len(caps.Table()) != 9 {
		t.Errorf("capabilities %v", caps.Table())
	}
}

func TestLogin(t *testing.T) {
	f := start(t, func(o *Options) { o.silence = time.Millisecond })
	amqplain := func(user, password string) []byte {
		b := spec.AppendTable(nil, message.Table{
			{Name: "LOGIN", Value: message.String(user)},
			{Name: "PASSWORD", Value: message.String(password)},
		})
		return b[4:]
	}
	for _, tc := range []struct {
		name, mechanism string
		response        []byte
		ok              bool
	}{
		{"plain", "PLAIN", []byte("\x00guest\x00guest"), true},
		{"plain with an identity", "PLAIN", []byte("guest\x00guest\x00guest"), true},
		{"wrong password", "PLAIN", []byte("\x00guest\x00bad"), false},
		{"unknown user", "PLAIN", []byte("\x00nobody\x00guest"), false},
		{"no parts", "PLAIN", []byte("guest"), false},
		{"empty", "PLAIN", nil, false},
		{"amqplain", "AMQPLAIN", amqplain("guest", "guest"), true},
		{"amqplain, wrong password", "AMQPLAIN", amqplain("guest", "bad"), false},
		{"amqplain, malformed", "AMQPLAIN", []byte{5, 'L'}, false},
		{"anonymous", "ANONYMOUS", []byte("me"), true},
	} {
		t.Run(tc.name, func(*testing.T) {
			m := plain("", "")
			m.Mechanism, m.Response = tc.mechanism, tc.response
			c := f.greeted()
			c.send(0, m)
			if tc.ok {
				recv[*spec.ConnectionTune](c, 0)
				return
			}
			c.told(spec.AccessRefused, "ACCESS_REFUSED - Login was refused using authentication mechanism "+tc.mechanism+
				". For details see the broker logfile.", 0)
			m.ClientProperties = nil
			c = f.greeted()
			c.send(0, m)
			c.gone()
		})
	}
	m := plain("guest", "guest")
	m.Mechanism = "NONE"
	c := f.greeted()
	c.send(0, m)
	c.told(spec.CommandInvalid, "COMMAND_INVALID - unknown authentication mechanism 'NONE'", spec.ConnectionStartOkID)
}

func TestTune(t *testing.T) {
	f := start(t, nil)
	c := f.greeted()
	c.send(0, plain("guest", "guest"))
	if m := recv[*spec.ConnectionTune](c, 0); *m != (spec.ConnectionTune{ChannelMax: 2047, FrameMax: 131072, Heartbeat: 60}) {
		t.Errorf("%+v", m)
	}
	for _, tc := range []struct {
		ok   spec.ConnectionTuneOk
		text string
	}{
		{spec.ConnectionTuneOk{ChannelMax: 0, FrameMax: 131072}, "channel_max = 0 is higher than the maximum allowed value (2047)"},
		{spec.ConnectionTuneOk{ChannelMax: 2048, FrameMax: 131072}, "channel_max = 2048 is higher than the maximum allowed value (2047)"},
		{spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: 0}, "frame_max = 0 is higher than the maximum allowed value (131072)"},
		{spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: 200000}, "frame_max = 200000 is higher than the maximum allowed value (131072)"},
		{spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: 4095}, "frame_max = 4095 is lower than the minimum allowed value (4096)"},
	} {
		c := f.tuned()
		c.send(0, &tc.ok)
		c.told(spec.NotAllowed, "NOT_ALLOWED - negotiated "+tc.text, spec.ConnectionTuneID)
	}
	f.connectWith(&spec.ConnectionTuneOk{ChannelMax: 1, FrameMax: 4096, Heartbeat: 600})
}

func TestVirtualHost(t *testing.T) {
	f := start(t, nil)
	c := f.tuned()
	c.send(0, &spec.ConnectionTuneOk{ChannelMax: 10, FrameMax: 131072})
	c.send(0, &spec.ConnectionOpen{VirtualHost: "nope"})
	c.told(spec.NotAllowed, "NOT_ALLOWED - vhost nope not found", spec.ConnectionOpenID)
}

// TestOtherVirtualHosts are namespaces, and their connections end with them.
func TestOtherVirtualHosts(t *testing.T) {
	f := start(t, func(o *Options) { o.heartbeatUnit = 40 * time.Millisecond })
	if _, err := f.router.CreateNamespace(t.Context(), router.Principal{}, "tenant", nil); err != nil {
		t.Fatal(err)
	}
	open := func(vhost string) *client {
		c := f.tuned()
		c.send(0, &spec.ConnectionTuneOk{ChannelMax: 10, FrameMax: 131072})
		c.send(0, &spec.ConnectionOpen{VirtualHost: vhost})
		return c
	}
	c := open("tenant")
	recv[*spec.ConnectionOpenOk](c, 0)
	open(core.DefaultNamespace).told(spec.NotAllowed, "NOT_ALLOWED - vhost default not found", spec.ConnectionOpenID)
	other := f.connect()
	if err := f.router.DeleteNamespace(t.Context(), router.Principal{}, "tenant"); err != nil {
		t.Fatal(err)
	}
	open("tenant").told(spec.NotAllowed, "NOT_ALLOWED - vhost tenant not found", spec.ConnectionOpenID)
	c.told(spec.ConnectionForced, "CONNECTION_FORCED - vhost 'tenant' is deleted", 0)
	other.openChannel(1)
}

func TestUnexpectedMethods(t *testing.T) {
	f := start(t, nil)
	c := f.greeted()
	c.send(0, &spec.ConnectionOpen{VirtualHost: "/"})
	c.told(spec.ChannelError, "CHANNEL_ERROR - unexpected method in connection state starting", spec.ConnectionOpenID)
	c = f.tuned()
	c.send(0, &spec.ConnectionOpen{VirtualHost: "/"})
	c.told(spec.ChannelError, "CHANNEL_ERROR - unexpected method in connection state tuning", spec.ConnectionOpenID)
	c = f.connect()
	c.send(0, &spec.ConnectionOpen{VirtualHost: "/"})
	c.told(spec.ChannelError, "CHANNEL_ERROR - unexpected method in connection state running", spec.ConnectionOpenID)
	c = f.channel()
	c.send(1, &spec.QueueDeclareOk{})
	c.told(spec.CommandInvalid, "COMMAND_INVALID - unimplemented method", spec.QueueDeclareOkID)
}

// TestConnectionErrors are errors that close the connection, by what is sent on channel 1,
// which is open.
func TestConnectionErrors(t *testing.T) {
	f := start(t, nil)
	publish := spec.AppendMethod(nil, 1, &spec.BasicPublish{RoutingKey: "k"})
	header := func(class uint16, size uint64) []byte {
		b := binary.BigEndian.AppendUint16(nil, class)
		b = binary.BigEndian.AppendUint64(append(b, 0, 0), size)
		return frame(spec.FrameHeader, 1, append(b, 0, 0))
	}
	badEnd := frame(spec.FrameMethod, 1, []byte{0, 60, 0, 10, 0, 0, 0, 0, 0, 1, 0})
	badEnd[len(badEnd)-1] = 0
	tooLarge := binary.BigEndian.AppendUint32([]byte{spec.FrameBody, 0, 1}, 140000)
	for _, tc := range []struct {
		name string
		sent []byte
		code spec.Code
		text string
		id   spec.MethodID
	}{
		{"method on a channel that is not open", spec.AppendMethod(nil, 2, &spec.BasicQos{}), spec.ChannelError, "CHANNEL_ERROR - expected 'channel.open'", spec.BasicQosID},
		{"second channel.open", spec.AppendMethod(nil, 1, &spec.ChannelOpen{}), spec.ChannelError, "CHANNEL_ERROR - second 'channel.open' seen", spec.ChannelOpenID},
		{"heartbeat on a channel", frame(spec.FrameHeartbeat, 1, nil), spec.UnexpectedFrame, "UNEXPECTED_FRAME - type 8, all octets = <<>>", 0},
		{"body without method", frame(spec.FrameBody, 1, []byte("x")), spec.UnexpectedFrame, "UNEXPECTED_FRAME - expected method frame, got non method frame instead", 0},
		{"body on channel 0", frame(spec.FrameBody, 0, []byte("x")), spec.UnexpectedFrame, `UNEXPECTED_FRAME - type 3, all octets = <<"x">>`, 0},
		{"header of another class", bytes.Join([][]byte{publish, header(50, 1)}, nil), spec.UnexpectedFrame, "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead", spec.BasicPublishID},
		{"method instead of header", bytes.Join([][]byte{publish, publish}, nil), spec.UnexpectedFrame, "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead", spec.BasicPublishID},
		{"method instead of body", bytes.Join([][]byte{publish, header(60, 1), publish}, nil), spec.UnexpectedFrame, "UNEXPECTED_FRAME - expected content body, got non content body frame instead", spec.BasicPublishID},
		{"body longer than its header says", bytes.Join([][]byte{publish, header(60, 1), frame(spec.FrameBody, 1, []byte("xy"))}, nil), spec.FrameError, "FRAME_ERROR - content body of 2 bytes is longer than the 1 of its header", spec.BasicPublishID},
		{"bad frame end", badEnd, spec.FrameError, "FRAME_ERROR - type 1, all octets = <<0,60,0,10,0,0,0,0,0,1,0>>: {invalid_frame_end_marker,0}", 0},
		{"frame too large", tooLarge, spec.FrameError, "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,140000,131064}", 0},
		{"unknown frame type", frame(9, 1, []byte("abc")), spec.FrameError, `FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame`, 0},
		{"unknown class", frame(spec.FrameMethod, 1, []byte{0, 99, 0, 1}), spec.CommandInvalid, "COMMAND_INVALID - unknown method 99.1", 0},
		{"unknown method", frame(spec.FrameMethod, 1, []byte{0, 60, 0, 99}), spec.CommandInvalid, "COMMAND_INVALID - unknown method 60.99", 0},
		{"method cut off", frame(spec.FrameMethod, 1, []byte{0, 60, 0, 10, 0}), spec.FrameError, "FRAME_ERROR - cannot decode <<0>>", spec.BasicQosID},
		{"no method", frame(spec.FrameMethod, 1, nil), spec.FrameError, "FRAME_ERROR - type 1, all octets = <<>>: unknown_frame", 0},
		{"text that is none", spec.AppendMethod(nil, 1, &spec.BasicCancelOk{ConsumerTag: "\xff"}), spec.FrameError, "FRAME_ERROR - Malformed UTF-8 in shortstr", 0},
		{"a connection's method", spec.AppendMethod(nil, 1, &spec.ConnectionClose{}), spec.CommandInvalid, "COMMAND_INVALID - unimplemented method", spec.ConnectionCloseID},
		{"header cut off", bytes.Join([][]byte{publish, frame(spec.FrameHeader, 1, []byte{0, 60, 0})}, nil), spec.FrameError, "FRAME_ERROR - cannot decode the content header: malformed: it ends 1 bytes early", spec.BasicPublishID},
		{"flow off", spec.AppendMethod(nil, 1, &spec.ChannelFlow{}), spec.NotImplemented, "NOT_IMPLEMENTED - active=false", spec.ChannelFlowID},
	} {
		t.Run(tc.name, func(*testing.T) {
			c := f.channel()
			c.write(tc.sent)
			c.told(tc.code, tc.text, tc.id)
		})
	}
	f.works()
}

// TestChannelNumbers limits the count of channels, not their numbers.
func TestChannelNumbers(t *testing.T) {
	f := start(t, nil)
	c := f.connectWith(&spec.ConnectionTuneOk{ChannelMax: 2, FrameMax: 131072})
	c.openChannel(3000)
	c.openChannel(65535)
	c.send(65535, &spec.ChannelClose{ReplyCode: 200})
	recv[*spec.ChannelCloseOk](c, 65535)
	c.openChannel(1)
	c.send(2, &spec.ChannelOpen{})
	c.told(spec.NotAllowed, "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)", 0)
}

func TestAccessAndFlow(t *testing.T) {
	f := start(t, nil)
	c := f.channel()
	c.send(1, &spec.ChannelCloseOk{}) // of nothing
	c.send(2, &spec.ChannelCloseOk{}) // of a channel that is not open
	c.send(1, &spec.AccessRequest{Realm: "/data", Active: true})
	if m := recv[*spec.AccessRequestOk](c, 1); m.Ticket != 1 {
		t.Errorf("%+v", m)
	}
	c.send(1, &spec.ChannelFlow{Active: true})
	if m := recv[*spec.ChannelFlowOk](c, 1); !m.Active {
		t.Errorf("%+v", m)
	}
}

// TestMessageTooLarge closes the channel, whose frames are ignored until it is closed; then its
// number can be used again.
func TestMessageTooLarge(t *testing.T) {
	f := start(t, func(o *Options) { o.MaxMessageBytes = 1000 })
	c := f.channel()
	c.publish(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, make([]byte, 1001))
	c.channelClosed(1, spec.PreconditionFailed, "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000", spec.BasicPublishID)
	c.publish(1, &spec.BasicPublish{RoutingKey: "k"}, &spec.Properties{}, make([]byte, 1001))
	c.send(1, &spec.ChannelOpen{})
	c.send(1, &spec.ChannelClose{ReplyCode: 200}) // it crosses with ours
	recv[*spec.ChannelCloseOk](c, 1)
	c.send(1, &spec.ChannelCloseOk{})
	c.openChannel(1)
	f.works()
}

// TestLongTexts are cut as RabbitMQ does.
func TestLongTexts(t *testing.T) {
	f := start(t, nil)
	c := f.tuned()
	c.send(0, &spec.ConnectionTuneOk{ChannelMax: 10, FrameMax: 131072})
	c.send(0, &spec.ConnectionOpen{VirtualHost: strings.Repeat("v", 255)})
	c.told(spec.NotAllowed, ("NOT_ALLOWED - vhost " + strings.Repeat("v", 255))[:252]+"...", spec.ConnectionOpenID)
}

func TestUpdateSecret(t *testing.T) {
	f := start(t, nil)
	c := f.connect()
	c.send(0, &spec.ConnectionUpdateSecret{NewSecret: []byte("another"), Reason: "renewal"})
	recv[*spec.ConnectionUpdateSecretOk](c, 0)
	c.openChannel(1)
}
