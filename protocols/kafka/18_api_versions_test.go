package kafka

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestApiVersionsUnknownVersion holds kop#176: a version that is too new is answered in
// version 0, and the connection stays usable.
func TestApiVersionsUnknownVersion(t *testing.T) {
	c := start(t, nil).dial()
	for _, version := range []byte{6, 99, 127} {
		c.write([]byte{0, 0, 0, 14, 0, 18, 0, version, 0, 0, 0, 7, 0, 1, 'x', 0, 0, 0})
		want := "00000007" + "0023" + "00000001" + "001200000005"
		if diff := cmp.Diff(want, hex.EncodeToString(c.read())); diff != "" {
			t.Fatal(version, diff)
		}
	}
	c.write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 8, 255, 255})
	if want, got := "000000080000", hex.EncodeToString(c.read()[:6]); got != want {
		t.Fatalf("second response starts with %s, want %s", got, want)
	}
}

// TestApiVersionsGolden pins the bytes of what every client sees first.
func TestApiVersionsGolden(t *testing.T) {
	c := start(t, nil).dial()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test-client", "1.0"
	for _, version := range []int16{0, 3} {
		req.Version = version
		c.send(req)
		got := c.read()
		want := kmsg.NewPtrApiVersionsResponse()
		want.Version = version
		for _, a := range newAPITable() {
			if a != nil {
				want.ApiKeys = append(want.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: a.key.Int16(), MinVersion: a.advertisedMin(), MaxVersion: a.max})
			}
		}
		if version >= 3 {
			want.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: "group.version", MinVersionLevel: 1, MaxVersionLevel: 1}}
			want.FinalizedFeaturesEpoch = 0
		}
		// No tagged fields in the header, even where the version has them.
		if diff := cmp.Diff(want.AppendTo([]byte{0, 0, 0, byte(c.correlation)}), got); diff != "" {
			t.Fatalf("version %d: %s", version, diff)
		}
	}
}

func TestApiVersionsChecksTheClient(t *testing.T) {
	f := start(t, nil)
	for _, tc := range []struct {
		name    string
		version int16
		change  func(*kmsg.ApiVersionsRequest)
		want    int16
	}{
		{"good", 3, func(*kmsg.ApiVersionsRequest) {}, codeNone},
		{"bad name", 3, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = "no spaces" }, codeInvalidRequest},
		{"no version", 4, func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareVersion = "" }, codeInvalidRequest},
		{"our cluster", 5, func(r *kmsg.ApiVersionsRequest) { r.ClusterID = new(f.log.ClusterID()); r.NodeID = 1 }, codeNone},
		{"other cluster", 5, func(r *kmsg.ApiVersionsRequest) { r.ClusterID = new("other") }, codeRebootstrapRequired},
		{"other node", 5, func(r *kmsg.ApiVersionsRequest) { r.NodeID = 9 }, codeRebootstrapRequired},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := kmsg.NewPtrApiVersionsRequest()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = tc.version, "test", "1"
			tc.change(req)
			if resp := ask[*kmsg.ApiVersionsResponse](f.dial(), req); resp.ErrorCode != tc.want {
				t.Fatalf("code %d, want %d", resp.ErrorCode, tc.want)
			}
		})
	}
}

// TestVersionsAreKnown keeps the table inside what kmsg can decode.
func TestVersionsAreKnown(t *testing.T) {
	for _, a := range newAPITable() {
		if a == nil {
			continue
		}
		if top := a.key.Request().MaxVersion(); a.min < 0 || a.min > a.max || a.max > top {
			t.Errorf("%s: versions %d to %d, kmsg knows 0 to %d", a.key.Name(), a.min, a.max, top)
		}
	}
}
