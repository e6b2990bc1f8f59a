package htm_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	playsChild()
	goleak.VerifyTestMain(m)
}
