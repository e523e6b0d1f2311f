package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-dev/holdfast/review/rules"
)

// GitHub writes workflow commands, which GitHub shows beside the lines of a
// pull request (docs.github.com, "Workflow commands for GitHub Actions").
func GitHub(w io.Writer, r *Report) error {
	var b strings.Builder
	for _, f := range r.Findings {
		level := map[rules.Severity]string{rules.Blocking: "error", rules.ShouldFix: "warning", rules.Note: "notice"}[f.Severity]
		text := fmt.Sprintf("%s\n\n%swrong: %s\nfix: %s", short(people(f.Message), maxOutcome), table(f.Witness, 100), short(people(f.Witness.Got), maxOutcome), f.Fix)
		fmt.Fprintf(&b, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", level, property(f.Pos.File), f.Pos.Line, max(f.Pos.Col, 1),
			property(f.Rule.ID+" "+f.Rule.Title), data(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

type suite struct {
	XMLName  xml.Name `xml:"testsuite"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Cases    []testCase
}

type testCase struct {
	XMLName xml.Name `xml:"testcase"`
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	File    string   `xml:"file,attr,omitempty"`
	Line    int      `xml:"line,attr,omitempty"`
	Failure *failure `xml:"failure,omitempty"`
}

type failure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes a test case per write path and per finding: guarded paths pass,
// findings fail.
func JUnit(w io.Writer, r *Report) error {
	s := suite{Name: "holdfast review"}
	for _, p := range r.Paths {
		if p.Finding == "" {
			s.Cases = append(s.Cases, testCase{Class: p.Entry, Name: p.What + " " + p.Resource + " at " + p.Pos.String(), File: p.Pos.File, Line: p.Pos.Line})
		}
	}
	for _, f := range r.Findings {
		text := table(f.Witness, 100) + "wrong: " + short(people(f.Witness.Got), maxOutcome) + "\nfix: " + f.Fix + "\n"
		s.Cases = append(s.Cases, testCase{Class: f.Witness.Actors[0].Entry.Title(), Name: f.Rule.ID + " at " + f.Pos.String(), File: f.Pos.File, Line: f.Pos.Line,
			Failure: &failure{Message: short(people(f.Message), maxOutcome), Type: string(f.Severity), Text: text}})
		s.Failures++
	}
	s.Tests = len(s.Cases)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
