package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-dev/holdfast/review"
	"github.com/holdfast-dev/holdfast/review/effectfront"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/report"
	"github.com/holdfast-dev/holdfast/review/rules"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is a report with a race, a fault of one actor, a protection without
// effect between processes, and a guarded path.
func sample(t *testing.T) *report.Report {
	t.Helper()
	r, err := review.Run(t.Context(), review.Options{Dir: "testdata", Patterns: []string{"sample.effect"},
		FrontEnds: []front.FrontEnd{effectfront.FrontEnd{}}, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) < 3 {
		t.Fatalf("%d findings in the sample", len(r.Findings))
	}
	return r
}

func all(t *testing.T) []*rules.Rule {
	t.Helper()
	set, err := rules.Load()
	if err != nil {
		t.Fatal(err)
	}
	return set.All()
}

// TestGolden compares each form with its file.
func TestGolden(t *testing.T) {
	r := sample(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"sample.txt":          func(b *bytes.Buffer) error { return report.Text(b, r, report.TextOptions{Paths: true}) },
		"sample.json":         func(b *bytes.Buffer) error { return report.JSON(b, r) },
		"sample.sarif":        func(b *bytes.Buffer) error { return report.SARIF(b, r, all(t)) },
		"sample.github":       func(b *bytes.Buffer) error { return report.GitHub(b, r) },
		"sample.junit.xml":    func(b *bytes.Buffer) error { return report.JUnit(b, r) },
		"sample.inventory.md": func(b *bytes.Buffer) error { return report.Inventory(b, r) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		file := "testdata/" + name
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, b.Bytes()) {
			t.Errorf("%s differs; go test ./review/report -update, and read the difference. Got:\n%s", name, b.Bytes())
		}
	}
}

// TestSARIF validates against the schema of the standard and looks at what the
// schema can not say: a thread per actor, orders that number the schedule
// through.
func TestSARIF(t *testing.T) {
	r := sample(t)
	var b bytes.Buffer
	if err := report.SARIF(&b, r, all(t)); err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
	var log struct {
		Runs []struct {
			Results []struct {
				Prints map[string]string `json:"partialFingerprints"`
				Flows  []struct {
					Threads []struct {
						Locations []struct {
							Order int `json:"executionOrder"`
						} `json:"locations"`
					} `json:"threadFlows"`
				} `json:"codeFlows"`
			} `json:"results"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	for i, res := range log.Runs[0].Results {
		if res.Prints["holdfast/v1"] == "" || len(res.Flows) != 1 {
			t.Errorf("result %d: prints %v, %d flows", i, res.Prints, len(res.Flows))
			continue
		}
		if n := len(r.Findings[i].Witness.Actors); len(res.Flows[0].Threads) != n {
			t.Errorf("result %d: %d threads for %d actors", i, len(res.Flows[0].Threads), n)
		}
		seen := map[int]bool{}
		for _, th := range res.Flows[0].Threads {
			last := 0
			for _, l := range th.Locations {
				if l.Order <= last || seen[l.Order] {
					t.Errorf("result %d: order %d after %d", i, l.Order, last)
				}
				last, seen[l.Order] = l.Order, true
			}
		}
		if len(seen) != len(r.Findings[i].Witness.Events) {
			t.Errorf("result %d: %d of %d steps", i, len(seen), len(r.Findings[i].Witness.Events))
		}
	}
}

// TestSARIFSchemaCanFail: a log without a version is refused, so the test above
// means something.
func TestSARIFSchemaCanFail(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	if schema.Validate(map[string]any{"runs": []any{}}) == nil {
		t.Error("the schema takes anything")
	}
}

func TestJUnitIsXML(t *testing.T) {
	var b bytes.Buffer
	r := sample(t)
	if err := report.JUnit(&b, r); err != nil {
		t.Fatal(err)
	}
	var s struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Failure *struct{} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal(b.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Failures != len(r.Findings) || s.Tests != len(s.Cases) || s.Tests <= s.Failures {
		t.Errorf("%d tests, %d cases, %d failures for %d findings", s.Tests, len(s.Cases), s.Failures, len(r.Findings))
	}
}

func TestScenario(t *testing.T) {
	r := sample(t)
	var b strings.Builder
	if err := report.Scenario(&b, r.Findings[0], []string{"schema.sql"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"request: POST /withdraw", "amount: 1", "schema: [schema.sql]"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, f := range r.Findings {
		if len(f.Witness.Actors) == 1 {
			if err := report.Scenario(&strings.Builder{}, f, nil); err == nil {
				t.Error("a fault of one actor has a scenario")
			}
		}
	}
}
