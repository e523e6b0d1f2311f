package file

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// names gives random names stable ones. It is not safe for concurrent use.
//
// Within one run equal paths get equal names and different paths different ones,
// so a wrong guess of what is random can not hide a conflict. Over several runs a
// random name must be recognised, or else the same step has another label each
// time and replays diverge.
type names struct {
	// random are patterns that the user named, beside the built-in ones.
	random []*regexp.Regexp
	stable map[string]string // by path: the last element's stable name
	counts map[string]int    // by owner, directory and pattern
}

func newNames(random []*regexp.Regexp) *names {
	return &names{random: random, stable: map[string]string{}, counts: map[string]int{}}
}

// word is a run of letters and digits; the underscore separates, but for the
// letters of Python's tempfile.
var word = regexp.MustCompile(`[0-9A-Za-z]+`)

var (
	uuid       = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)
	pythonTemp = regexp.MustCompile(`^tmp[a-z0-9_]{8}`)
	number     = regexp.MustCompile(`^[0-9]+$`)
	digits     = regexp.MustCompile(`^[0-9]{4,}$`)
	hex        = regexp.MustCompile(`^[0-9a-fA-F]{6,}$`)
)

// randomParts finds the parts of a name that look random, in order: the caller's
// process id, 4 or more digits (a moment, os.CreateTemp), 6 or more letters and
// digits mixed (a hash, base 36), or, in a name for exclusive creation, 6 letters
// of both cases. Beside a random part any number is one: process ids may be short.
func (n *names) randomParts(name string, m mention) [][]int {
	var parts [][]int
	for _, re := range append(slices.Clip(n.random), uuid, pythonTemp) {
		if parts = re.FindAllStringIndex(name, -1); parts != nil {
			break
		}
	}
	inside := func(at []int) bool {
		return slices.ContainsFunc(parts, func(p []int) bool { return at[0] < p[1] && p[0] < at[1] })
	}
	words := word.FindAllStringIndex(name, -1)
	named := parts != nil
	for _, at := range words {
		w := name[at[0]:at[1]]
		if !inside(at) && (m.pid > 0 && w == strconv.Itoa(m.pid) || !named && looksRandom(w, m.exclusive)) {
			parts = append(parts, at)
		}
	}
	if len(parts) > 0 {
		for _, at := range words {
			if !inside(at) && number.MatchString(name[at[0]:at[1]]) {
				parts = append(parts, at)
			}
		}
	}
	slices.SortFunc(parts, func(a, b []int) int { return a[0] - b[0] })
	return parts
}

func looksRandom(w string, exclusive bool) bool {
	if digits.MatchString(w) {
		return true
	}
	hasDigit := strings.ContainsAny(w, "0123456789")
	lower := strings.ToUpper(w) != w
	upper := strings.ToLower(w) != w
	if len(w) < 6 {
		return false
	}
	if hex.MatchString(w) && hasDigit {
		return true
	}
	if hasDigit && (lower || upper) && strings.IndexFunc(w, isDigit) < len(w)-2 && len(w) >= 8 {
		return true
	}
	// A capital after the first letter, and letters of no word: mkstemp.
	return exclusive && len(w) == 6 && lower && upper && (hasDigit || strings.ToUpper(w[:1])+strings.ToLower(w[1:]) != w)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// mention is the circumstances under which a path is named for the first time.
type mention struct {
	owner string
	// pid is the process that names it; 0 is unknown.
	pid int
	// exists: the file was there before the run.
	exists bool
	// temp: it is being created as mkstemp, Go's os.CreateTemp and Python's
	// tempfile do: exclusively, for reading and writing, mode 0600. The whole
	// name is then taken for random, but for its extension: eight random letters
	// of Python's are all lower case in 8 % of all cases.
	temp      bool
	exclusive bool
}

// of gives the stable name of a path below the watched directories.
func (n *names) of(path string, m mention) string {
	if path == "" {
		return "."
	}
	dir, base, nested := cutLast(path)
	if nested {
		// The directories above are there, or nothing can be below them.
		d := m
		d.exists, d.temp, d.exclusive = false, false, false
		dir = n.of(dir, d)
	}
	s, known := n.stable[path]
	if !known {
		s = base
		if !m.exists {
			s = n.make(dir, base, m)
		}
		n.stable[path] = s
	}
	if nested {
		return dir + "/" + s
	}
	return s
}

// known is the stable name of a path as far as its elements have been named.
func (n *names) known(path string) string {
	dir, base, nested := cutLast(path)
	if s, ok := n.stable[path]; ok {
		base = s
	}
	if !nested {
		return base
	}
	return n.known(dir) + "/" + base
}

// make gives a name that is mentioned for the first time its stable form: all
// random parts together become one mark, where the first of them was.
func (n *names) make(dir, base string, m mention) string {
	pattern := ""
	if m.temp {
		pattern = "tmp-*"
		if i := strings.LastIndexByte(base, '.'); i > 0 && len(base)-i <= 6 && !looksRandom(base[i+1:], false) {
			pattern += base[i:]
		}
	} else {
		parts := n.randomParts(base, m)
		if len(parts) == 0 {
			return base
		}
		at := 0
		for i, p := range parts {
			pattern += base[at:p[0]]
			if i == 0 {
				pattern += "*"
			} else {
				// What joined it to the part before goes with it.
				pattern = strings.TrimRight(pattern, "-._")
			}
			at = p[1]
		}
		pattern += base[at:]
	}
	key := m.owner + "\x00" + dir + "\x00" + pattern
	n.counts[key]++
	return strings.Replace(pattern, "*", fmt.Sprintf("%s%d", m.owner, n.counts[key]), 1)
}

// cutLast cuts a path into its directory and its last element.
func cutLast(path string) (dir, base string, nested bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// ownerName is the letter of an instance whose steps nobody has attributed.
func ownerName(instance int) string {
	if instance < 26 {
		return string(rune('A' + instance))
	}
	return fmt.Sprintf("P%d-", instance)
}
