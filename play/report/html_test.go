package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

func htmlPage(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHTMLGolden(t *testing.T) {
	for name, r := range samples() {
		golden(t, name+".html", []byte(htmlPage(t, r)))
	}
}

// outside is what would make a page fetch something.
var outside = regexp.MustCompile(`(?i)\b(src|href|srcset|action|data)\s*=|@import|url\((?:[^#]|$)`)

// checkPage holds what any page must be: well-formed, self-contained, without
// scripts, with names that are there once and references that lead somewhere.
func checkPage(t *testing.T, name, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	ids, refs := map[string]int{}, []string{}
	wellFormed(t, name, d, func(s xml.StartElement) {
		switch strings.ToLower(s.Name.Local) {
		case "script", "img", "link", "iframe", "object", "foreignobject":
			t.Errorf("%s: there is a <%s>", name, s.Name.Local)
		}
		for _, a := range s.Attr {
			switch {
			case a.Name.Local == "id":
				ids[a.Value]++
			case a.Name.Local == "aria-labelledby":
				refs = append(refs, strings.Fields(a.Value)...)
			case strings.HasPrefix(a.Value, "url(#"):
				refs = append(refs, strings.TrimSuffix(strings.TrimPrefix(a.Value, "url(#"), ")"))
			case strings.HasPrefix(strings.ToLower(a.Name.Local), "on"):
				t.Errorf("%s: a handler %s", name, a.Name.Local)
			}
			if outside.MatchString(a.Name.Local + "=" + a.Value) {
				t.Errorf("%s: an outside resource in %s=%q", name, a.Name.Local, a.Value)
			}
		}
	})
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%s: %d elements with the id %q", name, n, id)
		}
	}
	for _, ref := range refs {
		if ids[ref] == 0 {
			t.Errorf("%s: nothing has the id %q", name, ref)
		}
	}
}

func TestHTMLSelfContained(t *testing.T) {
	for name, r := range samples() {
		if len(r.Findings) > 0 {
			r.Findings = append(r.Findings, r.Findings[0]) // two pictures on a page
		}
		checkPage(t, name, htmlPage(t, r))
	}
	if m := outside.FindString(pageCSS + pictureCSS); m != "" {
		t.Errorf("the style has %q", m)
	}
}

// words are what an application can put into a report, good and bad.
var hostile = []string{
	"SELECT balance FROM accounts WHERE id = 1", "<script>alert(1)</script>", "]]>", "<![CDATA[", "&amp;", `"'`, "\x1b[2J", "\x00",
	"\u202e", "東京タワー", "e\u0301", "\xff\xfe", "\ufffe", "😀", "a\nb\r\n\tc", "javascript:alert(1)", "-->", "</style></svg>",
	strings.Repeat("x", 120), "", " ", "ERROR 40P01", "waits for A", "500", "\u0085", "{{.Title}}",
}

func hostileText(rnd *rand.Rand) string {
	var b strings.Builder
	for range rnd.IntN(4) {
		b.WriteString(hostile[rnd.IntN(len(hostile))] + []string{"", " "}[rnd.IntN(2)])
	}
	return b.String()
}

func hostileReport(rnd *rand.Rand) *Report {
	text := func() string { return hostileText(rnd) }
	r := &Report{Scenario: text(), Name: text(), Holdfast: text(), Notes: []string{text()}, Background: []string{text()}}
	for range 1 + rnd.IntN(4) {
		r.Actors = append(r.Actors, Actor{Name: text(), Request: text(), Instance: rnd.IntN(3)})
	}
	r.Passes = []Pass{{Name: text(), Search: text(), Schedules: rnd.IntN(9), Inconclusive: 1, Reasons: map[string]int{text(): 2}, LeftOut: text()}}
	kinds := []string{RowRequest, RowStep, RowBlocked, RowWoke, RowPause, RowResponse, RowFault, ""}
	modes := []string{"read", "share", "lock", "publish", "unlock", "write"}
	for range rnd.IntN(3) {
		f := Finding{Kind: hostileKind(rnd), Sentence: text(), Inside: rnd.IntN(2) == 0, File: text(), Schedule: explore.Schedule{rnd.IntN(len(r.Actors)), 0}}
		for range rnd.IntN(14) {
			touch := fmt.Sprintf("%s t[id=%d], %s t", modes[rnd.IntN(6)], rnd.IntN(2), modes[rnd.IntN(6)])
			if rnd.IntN(4) == 0 {
				touch = text()
			}
			f.Rows = append(f.Rows, Row{rnd.IntN(len(r.Actors)), text(), text(), touch, kinds[rnd.IntN(len(kinds))]})
		}
		for range rnd.IntN(4) {
			f.Observed.Cells = append(f.Observed.Cells, Cell{text(), text(), rnd.IntN(2) == 0})
		}
		for range rnd.IntN(4) {
			f.Serial = append(f.Serial, Outcome{text(), f.Observed.Cells[:rnd.IntN(len(f.Observed.Cells)+1)]})
		}
		r.Findings = append(r.Findings, f)
	}
	return r
}

func hostileKind(rnd *rand.Rand) oracle.Kind {
	k := kinds()
	return append(k, oracle.Kind(hostileText(rnd)))[rnd.IntN(len(k)+1)]
}

// Whatever an application answers, each form stays what it is.
func TestHostileReports(t *testing.T) {
	for seed := range uint64(60) {
		r := hostileReport(rand.New(rand.NewPCG(seed, 7)))
		name := fmt.Sprintf("seed %d", seed)
		out := text(t, r, TextOptions{Width: 100, Verbose: seed%2 == 0})
		if strings.ContainsAny(out, "\x1b\x00\u202e\u0085\ufffe") {
			t.Errorf("%s: a control character reaches the terminal", name)
		}
		checkLines(t, name, out, 100)
		var b bytes.Buffer
		if err := JSON(&b, r); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadJSON(&b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b.Reset()
		if err := JUnit(&b, r, r); err != nil {
			t.Fatal(err)
		}
		wellFormed(t, name+" as JUnit", xml.NewDecoder(&b), func(xml.StartElement) {})
		checkPage(t, name, htmlPage(t, r))
		for i := range r.Findings {
			svg := picture(t, r, i)
			wellFormed(t, name+" as SVG", xml.NewDecoder(strings.NewReader(svg)), func(s xml.StartElement) {
				if s.Name.Local == "script" {
					t.Errorf("%s: a script in the picture", name)
				}
			})
			checkPicture(t, name, svg)
		}
	}
}
