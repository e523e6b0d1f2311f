package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// junitWidth is the width of the timeline in a failure, in cells: what the log
// viewers of CI systems show without wrapping.
const junitWidth = 110

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	File     string      `xml:"file,attr,omitempty"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      *junitText  `xml:"system-out"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitFailure `xml:"failure"`
	Out       *junitText    `xml:"system-out"`
}

// junitText is text of several lines, in a CDATA section so that it is legible
// in the file as well.
type junitText struct {
	Text string `xml:",cdata"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",cdata"`
}

// JUnit writes the reports as JUnit XML: a test suite for each scenario, in it
// a test case for each pass and a failing one for each finding, with the
// timeline as its text. A pass that left something out or was inconclusive in
// part says so in its output; it does not fail, as the play's exit code does not.
func JUnit(w io.Writer, reports ...*Report) error {
	all := junitSuites{Name: "holdfast play"}
	var took time.Duration
	for _, r := range reports {
		if err := r.check(); err != nil {
			return err
		}
		s := suite(r)
		all.Suites = append(all.Suites, s)
		all.Tests += s.Tests
		all.Failures += s.Failures
		took += r.Took
	}
	all.Time = seconds(took)
	var b bytes.Buffer
	b.WriteString(xml.Header)
	e := xml.NewEncoder(&b)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("encode %s as JUnit XML: %w", names(reports), err)
	}
	b.WriteByte('\n')
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write %s as JUnit XML: %w", names(reports), err)
	}
	return nil
}

func names(reports []*Report) string {
	s := make([]string, len(reports))
	for i, r := range reports {
		s[i] = r.Scenario
	}
	return "the report of " + strings.Join(s, ", ")
}

func suite(r *Report) junitSuite {
	name, file := printable(r.Name), printable(r.Scenario)
	if name == "" {
		name = file
	}
	s := junitSuite{Name: name, File: file, Failures: len(r.Findings), Time: seconds(r.Took)}
	for i := range r.Passes {
		p := &r.Passes[i]
		out := []string{"search: " + printable(p.Search), p.counts(), p.coverage()}
		if why := p.reasonWords(); len(why) > 0 {
			out = append(out, "inconclusive: "+strings.Join(why, "; "))
		}
		s.Cases = append(s.Cases, junitCase{Name: printable(p.Name), ClassName: name, Time: seconds(p.Took), Out: &junitText{strings.Join(out, "\n")}})
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		p := newTextPrinter(r, TextOptions{Width: junitWidth, Verbose: true})
		p.finding(i)
		s.Cases = append(s.Cases, junitCase{
			Name: fmt.Sprintf("finding %d: %s", i+1, f.heading()), ClassName: name, Time: seconds(0),
			Failure: &junitFailure{Type: printable(string(f.Kind)), Message: printable(f.Sentence), Text: "\n" + printableLines(p.String())},
		})
	}
	s.Tests = len(s.Cases)
	out := []string{r.verdict()}
	for _, x := range r.Background {
		out = append(out, "background: "+printable(x))
	}
	for _, x := range r.Notes {
		out = append(out, "note: "+printable(x))
	}
	s.Out = &junitText{strings.Join(out, "\n")}
	return s
}

// seconds is a time as JUnit has it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
