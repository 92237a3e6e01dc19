package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"hearth/storage"
	"hearth/storage/matrix"
)

// logAccess writes one line per request: at debug level, and at error level
// where the server failed. It logs templates instead of paths, and never query
// strings, headers or bodies.
func (k *Kernel) logAccess(w *response, r *http.Request, c *Call, took time.Duration) {
	level := zapcore.DebugLevel
	if w.status >= 500 && w.err != nil && k.loud(w.err) {
		level = zapcore.ErrorLevel
	}
	entry := k.log.Check(level, "request")
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 13)
	if level == zapcore.ErrorLevel {
		if n := k.unsaid.Swap(0); n > 0 {
			fields = append(fields, zap.Int64("unlogged", n))
		}
	}
	fields = append(fields,
		zap.String("request_id", c.RequestID),
		zap.String("method", r.Method),
		zap.String("route", c.Template),
		zap.Int("status", w.status),
		zap.Int64("bytes", w.bytes),
		zap.Duration("took", took),
		zap.String("ip", c.RemoteIP))
	if c.Template == "" {
		fields = append(fields, zap.String("path", clip(r.URL.EscapedPath())))
	}
	if c.User != "" {
		fields = append(fields, zap.String("user", string(c.User)), zap.String("device", string(c.Device)))
	}
	if c.Origin != "" {
		fields = append(fields, zap.String("origin", string(c.Origin)))
	}
	var told *matrix.Error
	switch {
	case errors.As(w.err, &told):
		fields = append(fields, zap.String("errcode", string(told.Code)))
	case w.err != nil:
		fields = append(fields, zap.Error(w.err))
	}
	entry.Write(fields...)
}

// loud tells whether a failure of the server gets a line at error level. Where
// the disk refuses writes, the store says so once, when that begins and when it
// ends; of other failures that go on, the first lines say as much as all of them,
// and the disk may be what fails.
func (k *Kernel) loud(err error) bool {
	if errors.Is(err, storage.ErrReadOnly) {
		return false
	}
	if k.failures.take("", k.opt.Now()) != nil {
		k.unsaid.Add(1)
		return false
	}
	return true
}

// statusClientLeft is what log and metrics say of a request whose client hung up
// before its answer, as every closed browser does in the middle of a long poll:
// it is no failure of the server. Nobody is sent it.
const statusClientLeft = 499

// clientLeft tells a failure that only says that nobody waits any more.
func clientLeft(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && r.Context().Err() != nil || errors.Is(err, http.ErrAbortHandler)
}

// clip bounds what the log repeats of an unknown path.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
