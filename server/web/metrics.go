package web

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count requests. One may serve several kernels. A nil *Metrics counts nothing.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics registers the request metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hearth_http_requests_total",
			Help: "Requests answered, by method, route template and status.",
		}, []string{"method", "route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "hearth_http_request_seconds",
			Help:    "Time to answer, by route template; long polls are left out.",
			Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10},
		}, []string{"method", "route"}),
	}
	reg.MustRegister(m.requests, m.seconds)
	return m
}

// routeMetrics are a route's own, looked up once.
type routeMetrics struct {
	ok      prometheus.Counter
	seconds prometheus.Observer // nil for long polls
}

func (m *Metrics) of(r Route) routeMetrics {
	if m == nil {
		return routeMetrics{}
	}
	rm := routeMetrics{ok: m.requests.WithLabelValues(r.Method, r.Path, "200")}
	if !r.LongPoll {
		rm.seconds = m.seconds.WithLabelValues(r.Method, r.Path)
	}
	return rm
}

// observe counts one answered request. Requests without a route share one line,
// so that made-up paths make no metrics.
func (m *Metrics) observe(rt *route, status int, took time.Duration) {
	switch {
	case m == nil:
		return
	case rt == nil:
		m.requests.WithLabelValues("", "none", strconv.Itoa(status)).Inc()
		return
	case status == 200:
		rt.metrics.ok.Inc()
	default:
		m.requests.WithLabelValues(rt.Method, rt.Path, strconv.Itoa(status)).Inc()
	}
	if rt.metrics.seconds != nil {
		rt.metrics.seconds.Observe(took.Seconds())
	}
}
