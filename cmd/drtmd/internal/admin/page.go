package admin

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/status"
)

//go:embed page.html
var pageText string

// shownEvents is how many events of all nodes the page shows.
const shownEvents = 40

// eventOf is an event with its node.
type eventOf struct {
	status.Event
	Node int
}

// pageTemplate is the live page as it is before its script runs.
func pageTemplate() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"mark": func(p status.Phase) string {
			switch p {
			case status.Ready:
				return "✔"
			case status.Running:
				return "▶"
			case status.Refusing, status.Gone:
				return "✖"
			case status.Draining:
				return "◼"
			}
			return "…"
		},
		"mib": func(n uint64) uint64 { return n >> 20 },
		"run": func(c *status.Cluster) string {
			for _, n := range c.Nodes {
				if l := n.Load; l != nil {
					return fmt.Sprintf("%s: %s, %.1f of %.1f s", l.Run, l.Phase, l.ElapsedS, l.OfS)
				}
			}
			return ""
		},
		"events": lastEvents,
		"level": func(l status.Level) string {
			return map[status.Level]string{status.Error: "bad", status.Warn: "warn"}[l]
		},
		"sign": func(l status.Level) string {
			if s := map[status.Level]string{status.Error: "✖", status.Warn: "⚠"}[l]; s != "" {
				return s
			}
			return "·"
		},
	}).Parse(pageText))
}

// lastEvents are those of all nodes, the newest first.
func lastEvents(c *status.Cluster) []eventOf {
	var all []eventOf
	for _, n := range c.Nodes {
		for _, e := range n.Events {
			all = append(all, eventOf{e, int(n.Member.Node)})
		}
	}
	slices.SortStableFunc(all, func(a, b eventOf) int { return b.Time.Compare(a.Time) })
	return all[:min(len(all), shownEvents)]
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	v, err := s.liveView(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var b bytes.Buffer
	if err := s.template.Execute(&b, v); err != nil {
		s.o.Log.Error("the live page", zap.Error(err))
		http.Error(w, "the page cannot be made; the log has the reason", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if _, err := w.Write(b.Bytes()); err != nil {
		s.o.Log.Debug("the client went away", zap.Error(err))
	}
}

func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	v, err := s.liveView(r.Context())
	s.json(w, v, err)
}
