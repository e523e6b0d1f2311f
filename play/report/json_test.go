package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	for name, r := range samples() {
		var b bytes.Buffer
		if err := JSON(&b, r); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", b.Bytes())
		got, err := ReadJSON(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := JSON(&again, got); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Errorf("%s: reading and writing changes it (%v)", name, err)
		}
		if len(r.Findings) > 0 && !reflect.DeepEqual(got.Findings[0].Rows, r.Findings[0].Rows) && name != "long-sql" {
			t.Errorf("%s: the timeline is not what was written", name)
		}
		if strings.Contains(b.String(), "null") {
			t.Errorf("%s: a list is null", name)
		}
	}
	var b bytes.Buffer
	if err := JSON(&b, &Report{Findings: []Finding{{}}}); err != nil || strings.Contains(b.String(), "null") {
		t.Errorf("an empty report (%v):\n%s", err, b.String())
	}
}

func TestReadJSONErrors(t *testing.T) {
	for in, want := range map[string]string{
		"{\n\"format\": 1,\n\"name\" 2}":      "line 3",
		"{\n\"format\": 1,\n\n\"name\": 2\n}": "line 4",
		`{"name": "x"}`:                       `no "format"`,
		`null`:                                `no "format"`,
		`{"format": 7}`:                       "format is 7",
		"{\"format\": 1}\n{}":                 "line 2",
		``:                                    "line 1",
	} {
		if _, err := ReadJSON(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", in, err, want)
		}
	}
	if _, err := ReadJSON(strings.NewReader(`{"format": 1, "from_a_newer_version": [1]}`)); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
}

// wellFormed reads data as XML to its end and calls fn for each element.
func wellFormed(t *testing.T, what string, d *xml.Decoder, fn func(xml.StartElement)) {
	t.Helper()
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%s is not well-formed: %v", what, err)
		}
		if s, ok := tok.(xml.StartElement); ok {
			fn(s)
		}
	}
}

func attr(s xml.StartElement, name string) string {
	for _, a := range s.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestJUnit(t *testing.T) {
	var reports []*Report
	for _, name := range slices.Sorted(maps.Keys(samples())) {
		reports = append(reports, samples()[name])
	}
	var b bytes.Buffer
	if err := JUnit(&b, reports...); err != nil {
		t.Fatal(err)
	}
	golden(t, "junit.xml", b.Bytes())
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Cases    []struct {
				Failure *struct {
					Text string `xml:",chardata"`
				} `xml:"failure"`
				Out string `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	tests, failures := 0, 0
	for i, s := range got.Suites {
		r, failed := reports[i], 0
		for j, c := range s.Cases {
			if c.Failure != nil {
				failed++
				for _, want := range []string{"schedule: ", " │ ", "observed"} {
					if !strings.Contains(c.Failure.Text, want) {
						t.Errorf("%s: a failure without %q", r.Scenario, want)
					}
				}
			} else if n := r.Passes[j].Inconclusive; n > 0 && !strings.Contains(c.Out, fmt.Sprintf("%d inconclusive", n)) {
				t.Errorf("%s: inconclusive runs are not in %q", r.Scenario, c.Out)
			}
		}
		if failed != len(r.Findings) || s.Failures != failed || s.Tests != len(s.Cases) || len(s.Cases) != len(r.Passes)+failed {
			t.Errorf("%s: %d cases, %d failed; the suite says %d and %d", r.Scenario, len(s.Cases), failed, s.Tests, s.Failures)
		}
		tests, failures = tests+len(s.Cases), failures+failed
	}
	if got.Tests != tests || got.Failures != failures || len(got.Suites) != len(reports) {
		t.Errorf("totals %d, %d, want %d, %d", got.Tests, got.Failures, tests, failures)
	}
}
