package golang

// cycles finds which functions call each other in circles. A circle is followed
// once: walking an evaluator or a recursive parser through all of its ways costs
// exponential time and shows nothing that one round does not.
func cycles(nodes []string, calls map[string][]string) map[string]int {
	t := &tarjan{calls: calls, index: map[string]int{}, low: map[string]int{}, on: map[string]bool{}, comp: map[string]int{}}
	for _, n := range nodes {
		if t.index[n] == 0 {
			t.visit(n)
		}
	}
	return t.comp
}

type tarjan struct {
	calls map[string][]string
	index map[string]int
	low   map[string]int
	on    map[string]bool
	stack []string
	comp  map[string]int // only of functions in a circle of at least two
	n     int
	comps int
}

func (t *tarjan) visit(v string) {
	t.n++
	t.index[v], t.low[v] = t.n, t.n
	t.stack = append(t.stack, v)
	t.on[v] = true
	for _, w := range t.calls[v] {
		if t.index[w] == 0 {
			t.visit(w)
			t.low[v] = min(t.low[v], t.low[w])
		} else if t.on[w] {
			t.low[v] = min(t.low[v], t.index[w])
		}
	}
	if t.low[v] != t.index[v] {
		return
	}
	t.comps++
	size := 0
	for i := len(t.stack) - 1; ; i-- {
		size++
		if t.stack[i] == v {
			break
		}
	}
	for range size {
		w := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.on[w] = false
		if size > 1 {
			t.comp[w] = t.comps
		}
	}
}
