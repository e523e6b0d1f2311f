package report

import (
	"bytes"
	"encoding/xml"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func picture(t *testing.T, r *Report, finding int) string {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, r, finding); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSVGGolden(t *testing.T) {
	for name, r := range samples() {
		for i := range r.Findings {
			golden(t, name+".svg", []byte(picture(t, r, i)))
		}
	}
	for _, n := range []int{-1, 1} {
		if err := SVG(&bytes.Buffer{}, lostUpdate(), n); err == nil {
			t.Errorf("drew finding %d of a report with one", n)
		}
	}
}

// area is a rectangle of a picture.
type area struct{ x, y, w, h float64 }

func (a area) overlaps(b area) bool {
	return a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h
}

func length(t *testing.T, s xml.StartElement, name string) float64 {
	t.Helper()
	if attr(s, name) == "" {
		return 0
	}
	f, err := strconv.ParseFloat(attr(s, name), 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", name, s, err)
	}
	return f
}

// checkPicture holds what a reader needs of any picture: boxes and labels that
// do not overlap, all text within the picture, and that of a box within it.
func checkPicture(t *testing.T, name, svg string) {
	t.Helper()
	var boxes, pills []area
	var width, height float64
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if err != nil {
			break // wellFormed has checked it
		}
		s, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		class := strings.Fields(attr(s, "class"))
		at := area{length(t, s, "x"), length(t, s, "y"), 0, 0}
		switch {
		case s.Name.Local == "svg":
			width, height = length(t, s, "width"), length(t, s, "height")
		case slices.Contains(class, "hf-box") || slices.Contains(class, "hf-talk"):
			at.w, at.h = length(t, s, "width"), length(t, s, "height")
			boxes = append(boxes, at)
		case slices.Contains(class, "hf-pill"):
			at.w, at.h = length(t, s, "width"), length(t, s, "height")
			pills = append(pills, at)
		case s.Name.Local == "text":
			text, _ := d.Token()
			chars, _ := text.(xml.CharData)
			if !slices.Contains(class, "hf-sans") && (at.x < 0 || at.x+float64(cellWidth(string(chars)))*glyph > width) {
				t.Errorf("%s: text leaves the picture: %q", name, chars)
			}
			if at.y < 0 || at.y > height {
				t.Errorf("%s: text below the picture: %q", name, chars)
			}
			for _, b := range boxes {
				inside := at.x >= b.x && at.x < b.x+b.w && at.y > b.y && at.y < b.y+b.h
				if inside && (at.x+float64(cellWidth(string(chars)))*glyph > b.x+b.w || at.y+3 > b.y+b.h) {
					t.Errorf("%s: text leaves its box: %q", name, chars)
				}
			}
		}
	}
	for _, all := range [][]area{boxes, pills} {
		for i, a := range all {
			for _, b := range all[:i] {
				if a.overlaps(b) {
					t.Errorf("%s: %v and %v overlap", name, a, b)
				}
			}
		}
	}
	for _, b := range boxes {
		if b.x < 0 || b.x+b.w > width || b.y < 0 || b.y+b.h > height {
			t.Errorf("%s: %v is outside of the picture", name, b)
		}
	}
}

func TestSVGGeometry(t *testing.T) {
	for name, r := range samples() {
		for i := range r.Findings {
			svg := picture(t, r, i)
			rows := 0
			wellFormed(t, name, xml.NewDecoder(strings.NewReader(svg)), func(s xml.StartElement) {
				if s.Name.Local == "circle" && strings.HasPrefix(attr(s, "class"), "hf-l") {
					rows++
				}
			})
			if rows != len(r.Findings[i].Rows) {
				t.Errorf("%s: %d of %d rows are drawn", name, rows, len(r.Findings[i].Rows))
			}
			checkPicture(t, name, svg)
		}
	}
}

// Each arrow begins and ends at the sides of the boxes that it is about.
func TestSVGArrows(t *testing.T) {
	svg := picture(t, lostUpdate(), 0)
	if n := strings.Count(svg, "<path class=\"hf-link"); n != 4 { // two, and two in the legend
		t.Errorf("%d arrows", n)
	}
	for _, want := range []string{"not seen here", "overwritten", "A holds a lock on accounts[id=1]", "B waits", "hf-hot"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	d := newDrawing(lostUpdate(), 0, false)
	d.placeRows()
	from, to := d.boxes[6], d.boxes[9] // A's UPDATE, B's UPDATE goes on
	x0, x1 := d.rail(0)+toBox+d.boxW, d.rail(1)-nodeR-2
	want := "d=\"M" + num(x0) + " "
	if !strings.Contains(picture(t, lostUpdate(), 0), want) || from.row.Actor != 0 || to.number != 10 {
		t.Errorf("no arrow begins with %s", want)
	}
	for x := x0; x <= x1; x++ {
		if y := curveY(x0, from.middle(), x1, to.middle(), x); y < from.middle()-1 || y > to.middle()+1 {
			t.Errorf("the curve is at %.1f for x %.1f", y, x)
		}
	}
}

// luminance is the relative luminance of a colour by WCAG 2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(v>>(16-8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestContrast(t *testing.T) {
	contrast := func(a, b string) float64 {
		x, y := luminance(t, a), luminance(t, b)
		return (max(x, y) + 0.05) / (min(x, y) + 0.05)
	}
	colour := map[string]tint{}
	for _, c := range palette {
		colour[c.name] = c
	}
	check := func(a, b string) {
		if x := contrast(colour[a].light, colour[b].light); x < 4.5 {
			t.Errorf("light: %s on %s has a contrast of %.1f", a, b, x)
		}
		if x := contrast(colour[a].dark, colour[b].dark); x < 4.5 {
			t.Errorf("dark: %s on %s has a contrast of %.1f", a, b, x)
		}
	}
	for _, name := range []string{"text", "dim", "race", "wait", "good", "lane0", "lane1", "lane2", "lane3"} {
		check(name, "page")
		check(name, "box")
	}
	for _, lane := range []string{"lane0", "lane1", "lane2", "lane3"} {
		check("on", lane)
	}
}
