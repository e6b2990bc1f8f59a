package cli

import (
	"io"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

var logFormats = []string{"console", "json"}

// newLogger writes to w. The console format is for people who watch; json has a line per entry
// with time, level, message and fields.
func newLogger(w io.Writer, format, level string) (*zap.Logger, error) {
	at, err := zapcore.ParseLevel(level)
	if err != nil || level == "" { // which ParseLevel takes for info
		return nil, usagef("use debug, info, warn or error", "unknown log level %q", level)
	}
	sink := zapcore.Lock(zapcore.AddSync(w))
	switch format {
	case "console":
		c := zap.NewDevelopmentEncoderConfig()
		c.TimeKey, c.CallerKey, c.StacktraceKey = "", "", ""
		c.EncodeLevel = zapcore.LowercaseLevelEncoder
		c.ConsoleSeparator = "  "
		return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(c), sink, at)), nil
	case "json":
		c := zap.NewProductionEncoderConfig()
		c.TimeKey, c.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
		return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(c), sink, at)), nil
	}
	return nil, usagef("use "+strings.Join(logFormats, " or "), "unknown log format %q", format)
}
