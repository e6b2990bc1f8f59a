package etcdmember

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestWhatEndsEtcdIsAnErrorOfTheServer: its log ends the goroutine that has met it, not the process,
// whether it calls it fatal or a panic.
func TestWhatEndsEtcdIsAnErrorOfTheServer(t *testing.T) {
	for name, end := range map[string]func(*zap.Logger, string, ...zap.Field){
		"fatal": (*zap.Logger).Fatal, "panic": (*zap.Logger).Panic} {
		t.Run(name, func(t *testing.T) {
			c := newCrash(nil)
			c.started.Store(true)
			log := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(c), zap.WithPanicHook(c))
			ended, returned := make(chan struct{}), false
			go func() {
				defer close(ended)
				end(log, "failed to commit tx", zap.Error(errors.New("no space left on device")))
				returned = true
			}()
			<-ended
			if returned || !c.happened.Load() {
				t.Error("it went on")
			}
			err := <-c.failed
			for _, want := range []string{"failed to commit tx: no space left", "needs 256 MiB"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in %v", want, err)
				}
			}
		})
	}
}
