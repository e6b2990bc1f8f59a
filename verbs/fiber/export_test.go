package fiber

// Bounds of hopes.
const (
	MostHopes = mostHopes
	FewHopes  = fewHopes
)

// Hope has a worker poll before it switches as on Soft-RoCE, or never.
func Hope(w *Worker, hopeful bool) { w.eager, w.hopeful = false, hopeful }
