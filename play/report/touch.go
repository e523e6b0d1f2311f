package report

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/play/explore"
)

var (
	// accessStart is where one access of a Touch begins: the start or ", ",
	// and a mode.
	accessStart = regexp.MustCompile(`(?:^|, )(?:read|share|lock|publish|unlock|write) `)
	// whereKey is the start of one attribute within the brackets.
	whereKey = regexp.MustCompile(`(?:^| )([\pL_][\pL\pN_.$]*)=`)
	// bracket is a restriction at the end of an access.
	bracket = regexp.MustCompile(`^(.*?)(\[.*\])?$`)
	// byteRange is [from:to].
	byteRange = regexp.MustCompile(`\[(\d+):(\d+)\]$`)
)

// parseTouch reads the notation of [explore.Footprint.String]. What is not in
// this notation ("anything (...)", free text) gives no access, and then the
// picture has no arrow there. A value that itself looks like the notation can
// be read wrongly; it is then read alike in all rows.
func parseTouch(touch string) []explore.Access {
	starts := accessStart.FindAllStringIndex(touch, -1)
	if len(starts) == 0 || starts[0][0] != 0 {
		return nil
	}
	var all []explore.Access
	for i, at := range starts {
		end := len(touch)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		mode, rest, _ := strings.Cut(strings.TrimPrefix(touch[at[0]:end], ", "), " ")
		a := parseObject(rest)
		if a.Mode.UnmarshalText([]byte(mode)) == nil {
			all = append(all, a)
		}
	}
	return all
}

// parseObject reads an access without its mode, "OBJECT[where][from:to]".
func parseObject(rest string) explore.Access {
	var a explore.Access
	if m := byteRange.FindStringSubmatch(rest); m != nil {
		a.From, _ = strconv.ParseInt(m[1], 10, 64)
		a.To, _ = strconv.ParseInt(m[2], 10, 64)
		rest = strings.TrimSuffix(rest, m[0])
	}
	m := bracket.FindStringSubmatch(rest)
	if m == nil {
		a.Object = rest
		return a
	}
	a.Object = m[1]
	if m[2] != "" {
		a.Where = parseWhere(m[2][1 : len(m[2])-1])
	}
	return a
}

func parseWhere(s string) map[string]string {
	keys := whereKey.FindAllStringSubmatchIndex(s, -1)
	where := make(map[string]string, len(keys))
	for i, k := range keys {
		end := len(s)
		if i+1 < len(keys) {
			end = keys[i+1][0]
		}
		where[s[k[2]:k[3]]] = s[k[1]:end]
	}
	return where
}
