package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/report"
)

// manualCommand writes what an installation has beside the binary.
func (a *app) manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "manual FOLDER",
		Short: "write man pages and shell completions",
		Long: `manual writes the man pages of all commands and the completions of bash, zsh and fish
into FOLDER, in the layout of /usr/local/share:

  man/man1/drtmd*.1
  bash-completion/completions/drtmd
  zsh/site-functions/_drtmd
  fish/vendor_completions.d/drtmd.fish

make install runs this command. It replaces files of these names and touches no others.

Exit codes:
  0    done
  1    failed
  2    wrong command line`,
		Example: `  drtmd manual /usr/local/share
  drtmd manual ~/.local/share`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("see drtmd manual --help", "drtmd manual takes a folder")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return writeManual(c.Root(), args[0]) },
	}
}

// writeManual writes all files below a folder.
func writeManual(root *cobra.Command, folder string) error {
	pages := filepath.Join(folder, "man", "man1")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	root.InitDefaultHelpCmd()
	unquoteHelp(root)
	// A page has the date of its release, not that of the day on which it was written.
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
	err := doc.GenManTree(root, &doc.GenManHeader{Title: "DRTMD", Section: "1", Manual: "drtmd",
		Source: "drtmd " + report.ThisBuild().Version, Date: &date}, pages)
	if err != nil {
		return fmt.Errorf("man pages: %w", err)
	}
	for _, s := range []struct {
		file  string
		write func(file string) error
	}{
		{"bash-completion/completions/drtmd", func(f string) error { return root.GenBashCompletionFileV2(f, true) }},
		{"zsh/site-functions/_drtmd", root.GenZshCompletionFile},
		{"fish/vendor_completions.d/drtmd.fish", func(f string) error { return root.GenFishCompletionFile(f, true) }},
	} {
		file := filepath.Join(folder, filepath.FromSlash(s.file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := s.write(file); err != nil {
			return fmt.Errorf("completions: %w", err)
		}
	}
	return nil
}

// unquoteHelp readies the texts of all commands for the page maker, which takes them for Markdown.
func unquoteHelp(c *cobra.Command) {
	c.Long = markdown(c.Long)
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = escape.Replace(f.Usage) })
	for _, sub := range c.Commands() {
		unquoteHelp(sub)
	}
}

// escape makes signs of Markdown plain.
var escape = strings.NewReplacer("<", `\<`, "*", `\*`)

// markdown is a help text in Markdown: an indented block stays as it is, line by line.
func markdown(help string) string {
	lines := strings.Split(help, "\n")
	var b []string
	for i, line := range lines {
		switch {
		case !strings.HasPrefix(line, "  "):
			b = append(b, escape.Replace(line))
			continue
		case i > 0 && lines[i-1] != "" && !strings.HasPrefix(lines[i-1], "  "):
			b = append(b, "") // else the block would be part of the paragraph
		}
		b = append(b, "    "+line)
	}
	return strings.Join(b, "\n")
}
