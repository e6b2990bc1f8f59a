package cli

import "testing"

// TestHelpAsMarkdown: paragraphs are escaped, indented blocks are left as they are and stand apart.
func TestHelpAsMarkdown(t *testing.T) {
	for help, want := range map[string]string{
		"a <b> and *":               `a \<b> and \*`,
		"codes:\n  0    done\n  1*": "codes:\n\n      0    done\n      1*",
		"see:\n\n  <a>\n\n  b\nend": "see:\n\n      <a>\n\n      b\nend",
	} {
		if got := markdown(help); got != want {
			t.Errorf("%q: %q, want %q", help, got, want)
		}
	}
}
