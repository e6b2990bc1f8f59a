package admin

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/status"
)

// The page, its style and its scripts.
var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string
	//go:embed page.js
	scriptText string
	//go:embed chart.js
	chartText string
)

// embedded serves a text that is a part of the program.
func embedded(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text) // the client may go away
	}
}

// shownEvents is how many events of all nodes the page shows.
const shownEvents = 40

// eventOf is an event with its node, and how often the node said it in that second.
type eventOf struct {
	status.Event
	Node, Times int
}

// pageTemplate is the live page as it is before its script runs, or without it.
func pageTemplate() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"mark":    func(p status.Phase) string { return phaseMark(p).sign },
		"class":   func(p status.Phase) string { return phaseMark(p).class },
		"sign":    func(l status.Level) string { return levelMark(l).sign },
		"level":   func(l status.Level) string { return levelMark(l).class },
		"mib":     status.MiB,
		"count":   count,
		"gone":    func(p status.Phase) bool { return p == status.Gone },
		"events":  lastEvents,
		"links":   linkTexts,
		"shares":  sharesOf,
		"percent": percent,
	}).Parse(pageText))
}

// mark is how something is told beside its name: a sign, and a class for its colour. page.js has
// the same.
type mark struct{ sign, class string }

func phaseMark(p status.Phase) mark {
	switch p {
	case status.Ready:
		return mark{"✔", "ok"}
	case status.Running:
		return mark{"▶", "ok"}
	case status.Refusing, status.Gone:
		return mark{"✖", "bad"}
	case status.Draining:
		return mark{"◼", "warn"}
	}
	return mark{"…", "warn"}
}

func levelMark(l status.Level) mark {
	switch l {
	case status.Error:
		return mark{"✖", "bad"}
	case status.Warn:
		return mark{"⚠", "warn"}
	}
	return mark{"·", "soft"}
}

// linkTexts are the links, a line for each node.
func linkTexts(c *status.Cluster) []string {
	var list []string
	for _, n := range c.Nodes {
		for _, l := range n.Links {
			list = append(list, fmt.Sprintf("%d to %d: %s", n.Member.Node, l.Peer, l.State))
		}
	}
	return list
}

// share is a cause of aborts with its part of them.
type share struct {
	Cause   string
	Count   uint64
	Percent float64
	Bar     float64 // percent of the most frequent cause
}

// percent does not call little nothing.
func percent(x float64) string {
	if x > 0 && x < 0.1 {
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", x)
}

// sharesOf causes, the most frequent first.
func sharesOf(causes map[string]uint64) []share {
	var list []share
	sum, most := uint64(0), uint64(1)
	for cause, n := range causes {
		list = append(list, share{Cause: cause, Count: n})
		sum += n
		most = max(most, n)
	}
	for i := range list {
		list[i].Percent = 100 * float64(list[i].Count) / float64(max(sum, 1))
		list[i].Bar = 100 * float64(list[i].Count) / float64(most)
	}
	slices.SortFunc(list, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause))
	})
	return list
}

// lastEvents are those of all nodes, the newest first.
func lastEvents(c *status.Cluster) []eventOf {
	type key struct {
		node, second int64
		level        status.Level
		text         string
	}
	at := map[key]int{}
	var all []eventOf
	for _, n := range c.Nodes {
		for _, e := range slices.Backward(n.Events) {
			k := key{int64(n.Member.Node), e.Time.Unix(), e.Level, e.Text}
			if i, again := at[k]; again {
				all[i].Times++
				continue
			}
			at[k] = len(all)
			all = append(all, eventOf{e, int(n.Member.Node), 1})
		}
	}
	slices.SortStableFunc(all, func(a, b eventOf) int { return b.Time.Compare(a.Time) })
	return all[:min(len(all), shownEvents)]
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	v, err := s.view(r.Context())
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
	v, err := s.view(r.Context())
	s.json(w, v, err)
}
