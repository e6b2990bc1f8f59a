package service

import (
	"io"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"
)

// Of equal messages within a second, the first few are written, and then one in so many.
const (
	sampleTick  = time.Second
	sampleFirst = 10
	sampleEvery = 100
)

// NewLog makes a log whose level can be changed. format is console, json, or auto: console if w is
// a terminal. Repeated messages are thinned out, and the log says how many were left out: with the
// first message of any kind a second later, and when it is synced.
func NewLog(w io.Writer, level, format string) (*zap.Logger, zap.AtomicLevel, error) {
	l, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, l, err
	}
	if f, ok := w.(*os.File); format == "auto" {
		format = "json"
		if ok && term.IsTerminal(int(f.Fd())) {
			format = "console"
		}
	}
	var enc zapcore.Encoder
	if format == "json" {
		c := zap.NewProductionEncoderConfig()
		c.EncodeTime, c.EncodeDuration = zapcore.RFC3339NanoTimeEncoder, zapcore.StringDurationEncoder
		enc = zapcore.NewJSONEncoder(c)
	} else {
		c := zap.NewDevelopmentEncoderConfig()
		c.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		enc = zapcore.NewConsoleEncoder(c)
	}
	core := zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), l)
	left := &leftOut{core: core, counts: map[message]*repeats{}}
	return zap.New(zapcore.NewSamplerWithOptions(&countingCore{core, left}, sampleTick, sampleFirst,
		sampleEvery, zapcore.SamplerHook(left.note))), l, nil
}
