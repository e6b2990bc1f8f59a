package reproduce

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caption is a line of testdata/captions.txt.
type caption struct {
	table  bool
	number int
	label  string // as the paper prints it
}

var captionLine = regexp.MustCompile(`^(\w+) (Table|TABLE|Figure|Fig\.) ([0-9IVX]+) +(\S.*)$`)

// captions are those of the papers, by system.
func captions(t *testing.T) map[string][]caption {
	t.Helper()
	text, err := os.ReadFile("testdata/captions.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]caption{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := captionLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %d: %q", i+1, line)
		}
		c := caption{table: strings.EqualFold(m[2], "table"), label: m[3]}
		if c.number, err = strconv.Atoi(m[3]); err != nil {
			c.number = 1 + slices.Index([]string{"I", "II", "III", "IV", "V", "VI", "VII", "VIII"}, m[3])
		}
		all[m[1]] = append(all[m[1]], c)
	}
	return all
}

// Every caption of the papers has an item, by the paper's own number, and no item is without one.
func TestEveryTableAndFigureIsListed(t *testing.T) {
	want := captions(t)
	counts := map[string]string{"drtm": "8 tables, 20 figures", "hades": "5 tables, 15 figures",
		"xenic": "3 tables, 9 figures", "rtx": "2 tables, 18 figures",
		"dandelion": "6 tables, 25 figures"}
	for _, s := range Systems() {
		if s.Name == ownName {
			continue // no paper
		}
		// A caption has one item or one for each part, and may have another one by the wall clock.
		s.Items = slices.DeleteFunc(s.Items, func(i Item) bool { return i.Wall || i.Named != "" || i.Split > "a" })
		tables, figures := 0, 0
		for _, c := range want[s.Name] {
			// The captions of a paper are numbered without a gap.
			n := &figures
			if c.table {
				n = &tables
			}
			if *n++; c.number != *n {
				t.Errorf("%s: caption %s is number %d", s.Name, c.label, *n)
			}
			i := slices.IndexFunc(s.Items, func(i Item) bool {
				return i.Table == c.table && i.Number == c.number
			})
			if i < 0 {
				t.Errorf("%s: no item for the caption %s, table: %v", s.Name, c.label, c.table)
				continue
			}
			if label := strings.TrimSuffix(s.Items[i].Label(), "(a)"); !strings.HasSuffix(label, " "+c.label) {
				t.Errorf("%s is called %q, its caption says %s", s.Items[i].Name(), label, c.label)
			}
		}
		if got := fmt.Sprintf("%d tables, %d figures", tables, figures); got != counts[s.Name] {
			t.Errorf("%s: captions of %s, the paper has %s", s.Name, got, counts[s.Name])
		}
		if len(s.Items) != tables+figures {
			t.Errorf("%s: %d items for %d captions", s.Name, len(s.Items), tables+figures)
		}
		delete(want, s.Name)
	}
	if len(want) != 0 {
		t.Errorf("captions of no system: %v", want)
	}
}

func TestItemsSayWhatTheyAre(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Systems() {
		for _, i := range s.Items {
			if names[i.Name()] || i.Title == "" || i.Kind < Exact || i.Kind > NotHere {
				t.Errorf("%s: double, without a title, or of kind %d", i.Name(), i.Kind)
			}
			names[i.Name()] = true
			switch i.State() {
			case Never:
				if i.Note == "" || i.run != nil || i.Waits != "" {
					t.Errorf("%s is not reproducible here, without a reason: %+v", i.Name(), i.Entry())
				}
			case Waiting:
				t.Errorf("%s waits for %q: every system is there", i.Name(), i.Waits)
			case Done:
				if i.Waits != "" || i.cost.quick <= 0 || i.cost.seed < i.cost.quick {
					t.Errorf("%s is done and waits for %q, or has no estimate", i.Name(), i.Waits)
				}
			}
		}
	}
}

func TestSelectTakesItemsSystemsAndAll(t *testing.T) {
	name := func(items []Item) (names []string) {
		for _, i := range items {
			names = append(names, i.Name())
		}
		return names
	}
	for _, x := range []struct{ names, want string }{
		{"drtm/figure-3 drtm/table-6 drtm/table-6", "drtm/table-6 drtm/figure-3"},
		{"hades/figure-9", "hades/figure-9"}, {"hades", "hades/table-3 hades/table-4 hades/figure-3 hades/figure-9 hades/figure-10 hades/figure-11 hades/figure-12 hades/figure-13 hades/figure-14 hades/figure-15"},
		{"xenic", "xenic/table-2 xenic/table-3 xenic/figure-2 xenic/figure-3 xenic/figure-4 xenic/figure-7 xenic/figure-8a xenic/figure-8b xenic/figure-8c xenic/figure-8d xenic/figure-9a xenic/figure-9b xenic/figure-9-wall xenic/table-3-counted"},
		{"xenic/figure-8", "xenic/figure-8a xenic/figure-8b xenic/figure-8c xenic/figure-8d"}, {"rtx", "rtx/table-1 rtx/table-2 rtx/figure-11 rtx/figure-12 rtx/figure-13 rtx/figure-14 rtx/figure-15 rtx/figure-16 rtx/figure-17 rtx/figure-18 rtx/figure-14-wall rtx/figure-18-wall"},
		{"drtm", "drtm/table-1 drtm/table-3 drtm/table-4 drtm/table-6 drtm/table-7 drtm/table-8 drtm/figure-1 " +
			"drtm/figure-2 drtm/figure-3 drtm/figure-7 drtm/figure-15 drtm/figure-16 drtm/figure-17 drtm/figure-18 " +
			"drtm/figure-19 drtm/figure-20"},
	} {
		items, err := Select(Systems(), strings.Fields(x.names))
		if got := strings.Join(name(items), " "); err != nil || got != x.want {
			t.Errorf("%s: %q, %v, want %q", x.names, got, err, x.want)
		}
	}
	for wrong, want := range map[string]string{
		"drtm/tabel-6": "drtm/table-6", "drtm/table-9": "drtm/table-", "Hades": "did you mean hades",
		"nonsense": "--list names all", "": "--list names all",
	} {
		_, err := Select(Systems(), []string{wrong})
		var unknown *UnknownError
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", wrong, err, want)
		}
	}
}

func TestWhatIsNotDoneIsNamed(t *testing.T) {
	cases := map[string]string{"drtm/figure-4": "is not reproducible here: a drawing"}
	for _, s := range Systems() {
		for _, i := range s.Items {
			if i.State() == Waiting {
				cases[i.Name()] = "waits for " + i.Waits
			}
		}
	}
	for name, want := range cases {
		items, err := Select(Systems(), []string{name})
		if err != nil {
			t.Fatal(err)
		}
		if err := Runnable(items); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
