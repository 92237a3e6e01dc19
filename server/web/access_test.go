package web_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"hearth/server/web"
)

// A client that hangs up, as a closed browser does in the middle of a long poll,
// is no failure of the server, neither in its log nor in its metrics.
func TestClientThatHangsUp(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	reg := prometheus.NewRegistry()
	waiting := make(chan struct{})
	s := newKernel(t, web.Options{Log: zap.New(core), Metrics: web.NewMetrics(reg)},
		web.Route{Method: "GET", Path: "/poll", LongPoll: true,
			Handler: web.Public(func(ctx context.Context, _ *web.Call, _ web.NoBody) (web.Empty, error) {
				close(waiting)
				<-ctx.Done()
				return web.Empty{}, ctx.Err()
			})})
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/poll", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-waiting; hangUp() }()
	if resp, err := s.Client().Do(req); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, %v", resp, err)
	}
	s.Close() // waits for the request
	lines := logs.FilterMessage("request").All()
	if len(lines) != 1 || lines[0].Level != zap.DebugLevel || lines[0].ContextMap()["status"] != int64(499) {
		t.Errorf("log: %v", lines)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "code" && m.GetCounter().GetValue() > 0 {
					codes[l.GetValue()] += m.GetCounter().GetValue()
				}
			}
		}
	}
	if len(codes) != 1 || codes["499"] != 1 {
		t.Errorf("requests counted by code: %v", codes)
	}
}
