package oracle

import (
	"crypto/rand"
	"strconv"
	"testing"
)

// TestRandomTokens: a token that is made up in every run is noise, also when it
// happens to have no digit (one in two hundred of 26 base32 characters has none).
func TestRandomTokens(t *testing.T) {
	for _, fixed := range []string{"", "VKJSNBGPIXJWINPMIQYFIHSUVH"} {
		o := New(2, Hints{})
		for _, order := range Orders(2) {
			for n := range 2 {
				token := rand.Text()
				if n == 1 && fixed != "" {
					token = fixed[:25] + string(rune('A'+len(order)))
				}
				if err := o.AddSerial(order, withToken(order, token)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := o.Ready(); err != nil {
			t.Fatal(err)
		}
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			if v := o.Judge(withToken(order, rand.Text())); !v.OK {
				t.Errorf("order %v: %s", order, v.Sentence)
			}
		}
		lost := withToken([]int{0, 1}, rand.Text())
		one := "1"
		lost.Tables[0].Rows[0][1] = &one
		if v := o.Judge(lost); v.OK {
			t.Error("a lost update beside a token is not noticed")
		}
	}
}

// withToken is the outcome of requests that count in n and leave a token.
func withToken(order []int, token string) Outcome {
	cell := func(s string) *string { return &s }
	row := []*string{cell("a"), cell(strconv.Itoa(len(order))), nil}
	if len(order) > 0 {
		row[2] = &token
	}
	out := Outcome{Responses: make([]*Response, 2), Tables: []Table{{Name: "counters", Key: []int{0},
		Columns: []Column{{Name: "id", Type: Plain}, {Name: "n", Type: Plain}, {Name: "token", Type: Plain}},
		Rows:    [][]*string{row, {cell("b"), cell("0"), nil}}}}}
	for i, a := range order {
		out.Responses[a] = &Response{Status: 200, Body: `{"n":` + strconv.Itoa(i+1) + `}`, ContentType: "application/json"}
	}
	return out
}
