package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.tmpl
var pageTemplate string

//go:embed page.css
var pageCSS string

// page is what the template shows: everything worded and made safe for people,
// so that the template has no logic of its own. Escaping is the template's.
type page struct {
	Title, File, Verdict, Footer string
	CSS                          template.CSS
	Actors                       []pageActor
	Findings                     []pageFinding
	Passes                       []pagePass
	Background, Notes            []string
}

type pageActor struct {
	Name, Request  string
	Lane, Instance int
	Program        bool
}

type pageFinding struct {
	Number                    int
	Kind, Sentence, Why       string
	Wide, Sure                bool
	Picture                   template.HTML
	Orders                    []string
	Rows                      []pageRow
	Schedule                  []pageActor
	Times, Confirmed, Command string
	Steps                     []pageStep
}

type pageRow struct {
	Label  string
	Values []Cell
}

type pageStep struct {
	Number, Lane             int
	Actor, Step, Note, Touch string
}

type pagePass struct {
	Name, Search, Counts, Coverage string
	Partial                        bool
	Reasons                        []string
}

// HTML writes the report as one page that needs no other file, no script and
// no network. It follows the reader's colour scheme and fits a phone, where the
// picture scrolls sideways and the timeline can be read as a table.
func HTML(w io.Writer, r *Report) error {
	if err := r.check(); err != nil {
		return err
	}
	t, err := template.New("report").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("parse the page's template: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, newPage(r)); err != nil {
		return fmt.Errorf("make the page of %s: %w", r.Scenario, err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the page of %s: %w", r.Scenario, err)
	}
	return nil
}

func newPage(r *Report) page {
	p := page{
		Title: printable(r.Name), File: printable(r.Scenario), Verdict: r.verdict(),
		// The style is made of constants of this package only.
		CSS: template.CSS(paletteCSS(":root") + pageCSS + pictureCSS),
		Footer: fmt.Sprintf("%s to know the right outcomes, %s in all. Holdfast %s.",
			count(r.SerialRuns, "serial run"), duration(r.Took), printable(r.Holdfast)),
	}
	if p.Title == "" || p.Title == p.File {
		p.Title, p.File = p.File, ""
	}
	for i, a := range r.Actors {
		p.Actors = append(p.Actors, pageActor{r.actorName(i), printable(a.Request), i % lanes, a.Instance, a.Program})
	}
	for i := range r.Findings {
		p.Findings = append(p.Findings, newPageFinding(r, i))
	}
	for i := range r.Passes {
		x := &r.Passes[i]
		p.Passes = append(p.Passes, pagePass{printable(x.Name), printable(x.Search), x.counts(), x.coverage(),
			!x.Complete || x.Inconclusive > 0, x.reasonWords()})
	}
	for _, s := range r.Background {
		p.Background = append(p.Background, printable(s))
	}
	for _, s := range r.Notes {
		p.Notes = append(p.Notes, printable(s))
	}
	return p
}

func newPageFinding(r *Report, i int) pageFinding {
	f := &r.Findings[i]
	d := newDrawing(r, i, false)
	x := pageFinding{
		Number: i + 1, Kind: f.heading(), Sentence: printable(f.Sentence), Why: d.analysis.why, Wide: d.lanes > 2, Sure: f.sure(),
		// The drawing escapes all text that is not its own.
		Picture: template.HTML(d.draw()),
		Times:   r.timesWords(f), Confirmed: f.confirmedWords(), Command: printable(f.replayCommand()),
	}
	for _, o := range f.Serial {
		x.Orders = append(x.Orders, printable(o.Order))
	}
	all := append([]Outcome{f.Observed}, f.Serial...)
	for j, c := range f.Observed.Cells {
		row := pageRow{Label: printable(c.Label)}
		for k := range all {
			v, ok := all[k].cell(j, c.Label)
			if v.Value = printable(v.Value); !ok {
				v.Value = "–"
			}
			row.Values = append(row.Values, v)
		}
		x.Rows = append(x.Rows, row)
	}
	for _, a := range f.Schedule {
		x.Schedule = append(x.Schedule, pageActor{Name: r.actorName(a), Lane: a % lanes})
	}
	for j, row := range f.Rows {
		before, note, _ := rowNote(row)
		if before == "goes on → " {
			note = before + note
		}
		x.Steps = append(x.Steps, pageStep{j + 1, row.Actor % lanes, r.actorName(row.Actor), printableLines(row.Step), note, printable(row.Touch)})
	}
	return x
}
