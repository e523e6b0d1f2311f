package report

import (
	"fmt"
	"strings"
)

// tint is one colour of the page and the picture in both schemes.
type tint struct{ name, light, dark string }

// palette are the colours, as custom properties. Those that carry text or
// thin lines keep a contrast of 4.5:1 against page and box (a test computes
// it), so that no colour needs good eyes; and none carries a meaning alone.
var palette = []tint{
	{"page", "#ffffff", "#13161b"},
	{"box", "#f6f7f9", "#1d2229"},
	{"edge", "#c9ced6", "#3a424d"},
	{"text", "#1b2027", "#e7eaef"},
	{"dim", "#545c68", "#a3adba"},
	{"race", "#b3261e", "#ff8f86"},
	{"wait", "#8a5300", "#f2b45c"},
	{"good", "#1a6b3a", "#7fd49b"},
	{"on", "#ffffff", "#13161b"},
	{"lane0", "#0b5cad", "#7cb8ff"},
	{"lane1", "#7a3bb5", "#cba6ff"},
	{"lane2", "#0a6a5d", "#6cd4c0"},
	{"lane3", "#8a4513", "#e8a87c"},
}

// lanes is the number of lane colours.
const lanes = 4

// paletteCSS sets the colours by the reader's preferred scheme.
func paletteCSS(selector string) string {
	var light, dark strings.Builder
	for _, t := range palette {
		fmt.Fprintf(&light, "--%s:%s;", t.name, t.light)
		fmt.Fprintf(&dark, "--%s:%s;", t.name, t.dark)
	}
	return fmt.Sprintf("%s{%s}\n@media (prefers-color-scheme:dark){%s{%s}}\n", selector, light.String(), selector, dark.String())
}

// pictureCSS styles the picture; its classes begin with "hf-".
const pictureCSS = `.hf-bg{fill:var(--page)}
.hf text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:var(--text);white-space:pre}
.hf text.hf-sans{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.hf text.hf-dim{fill:var(--dim)}
.hf text.hf-bold{font-weight:600}
.hf text.hf-race{fill:var(--race)}
.hf text.hf-wait{fill:var(--wait)}
.hf text.hf-small{font-size:11px}
.hf text.hf-title{font-size:14px;font-weight:600}
.hf text.hf-kind{font-size:13px;font-weight:700;letter-spacing:.06em;fill:var(--race)}
.hf text.hf-node{font-size:10.5px;font-weight:700;fill:var(--on);text-anchor:middle}
.hf text.hf-mid{text-anchor:middle}
.hf-box{fill:var(--box);stroke:var(--edge)}
.hf-talk{fill:var(--page);stroke-width:1.5}
.hf-hot{stroke:var(--race);stroke-width:1.75}
.hf-rail{stroke:var(--edge);stroke-width:2}
.hf-rule{stroke:var(--edge)}
.hf-pill{fill:var(--page);stroke:var(--race);stroke-width:.75}
.hf-pill.hf-amber{stroke:var(--wait)}
.hf-link{fill:none;stroke:var(--race);stroke-width:1.75}
.hf-link.hf-dash{stroke-dasharray:5 4}
.hf-link.hf-amber{stroke:var(--wait)}
.hf-head{fill:var(--race)}
.hf-head.hf-amber{fill:var(--wait)}
.hf-hatch{stroke:var(--wait);stroke-width:1.5;opacity:.75}
.hf-dots{fill:var(--wait)}
.hf-band{stroke:var(--wait);stroke-width:.75;stroke-dasharray:3 3}
.hf-l0{fill:var(--lane0)}.hf-l1{fill:var(--lane1)}.hf-l2{fill:var(--lane2)}.hf-l3{fill:var(--lane3)}
.hf text.hf-l0{fill:var(--lane0)}.hf text.hf-l1{fill:var(--lane1)}.hf text.hf-l2{fill:var(--lane2)}.hf text.hf-l3{fill:var(--lane3)}
.hf-s0{stroke:var(--lane0)}.hf-s1{stroke:var(--lane1)}.hf-s2{stroke:var(--lane2)}.hf-s3{stroke:var(--lane3)}
`
