package oracle

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

var plainAccounts = []Column{{Name: "id", Type: ID}, {Name: "balance", Type: Plain}}

// bank has one account; each call takes its amount if there is enough.
func bank(start int, amounts ...int) application {
	app := application{setup: func(w *world) {
		w.table("accounts", []int{0}, plainAccounts...)
		w.insert("accounts", 1, start)
	}}
	for _, amount := range amounts {
		app.calls = append(app.calls, func(w *world) *Response {
			b := atoi(w.get("accounts", 1, "balance")) - amount
			if b < 0 {
				return answer(422, `{"error":"insufficient funds"}`)
			}
			w.set("accounts", 1, "balance", b)
			return answer(200, `{"balance":%d}`, b)
		})
	}
	return app
}

// ledger is bank with a row for each withdrawal, with what a real application
// puts there: a serial id, a foreign key, a time and a random token.
func ledger(start int, amounts ...int) application {
	app := bank(start)
	inner := app.setup
	app.setup = func(w *world) {
		inner(w)
		w.table("ledger", []int{0},
			Column{Name: "id", Type: ID}, Column{Name: "account_id", Type: ID, References: "accounts.id"},
			Column{Name: "amount", Type: Plain}, Column{Name: "created_at", Type: Time}, Column{Name: "token", Type: Plain})
		w.insert("ledger", 1, 1, start, "2026-01-01 00:00:00+00", "opening")
	}
	for _, amount := range amounts {
		app.calls = append(app.calls, func(w *world) *Response {
			b := atoi(w.get("accounts", 1, "balance")) - amount
			if b < 0 {
				return answer(422, `{"error":"insufficient funds"}`)
			}
			w.set("accounts", 1, "balance", b)
			return w.entry(amount, b)
		})
	}
	return app
}

// entry writes a ledger row and answers with its id.
func (w *world) entry(amount, balance int) *Response {
	id := w.next("ledger")
	w.insert("ledger", id, 1, -amount, w.now(), w.uuid())
	return answer(200, `{"id":%d,"balance":%d,"at":"%s"}`, id, balance, w.now())
}

// coupons are given out once for each user.
func coupons() application {
	app := application{setup: func(w *world) {
		w.table("coupons", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "user_name", Type: Plain}, Column{Name: "code", Type: Plain})
		w.insert("coupons", 1, "zoe", "WELCOME")
	}}
	call := func(w *world) *Response {
		for _, r := range w.find("coupons").Rows {
			if *r[1] == "ann" {
				return answer(409, `{"error":"already has one"}`)
			}
		}
		id := w.next("coupons")
		w.insert("coupons", id, "ann", "WELCOME")
		return answer(201, `{"id":%d}`, id)
	}
	app.calls = append(app.calls, call, call)
	return app
}

// doctors may go off call while another one is on.
func doctors() application {
	app := application{setup: func(w *world) {
		w.table("doctors", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "on_call", Type: Plain})
		w.insert("doctors", 1, "t")
		w.insert("doctors", 2, "t")
	}}
	for id := 1; id <= 2; id++ {
		app.calls = append(app.calls, func(w *world) *Response {
			if w.get("doctors", 3-id, "on_call") == "f" {
				return answer(422, `{"error":"one must stay"}`)
			}
			w.set("doctors", id, "on_call", "f")
			return answer(200, `{"ok":true}`)
		})
	}
	return app
}

// pages is a server-rendered shop with a token in each page.
func pages() application {
	app := application{setup: func(w *world) {
		w.table("stock", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "left", Type: Plain})
		w.table("orders", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "stock_id", Type: ID})
		w.insert("stock", 1, 5)
	}}
	call := func(w *world) *Response {
		n := atoi(w.get("stock", 1, "left")) - 1
		w.set("stock", 1, "left", n)
		return w.page(n)
	}
	app.calls = append(app.calls, call, call)
	return app
}

func (w *world) page(left int) *Response {
	id := w.next("orders")
	w.insert("orders", id, 1)
	token := strings.ReplaceAll(w.uuid(), "-", string("+/="[w.rnd.IntN(3)]))
	r := html(200, "<html><form><input name=\"csrf\" value=\"%s\"></form>\n<a href=\"/orders/%d\">order %d</a><p>%d left at %s</p></html>", token, id, id, left, w.now())
	r.Header = map[string]string{"Location": "/orders/" + strconv.Itoa(id)}
	return r
}

// settings is one JSON document that each call adds a key to.
func settings() application {
	app := application{setup: func(w *world) {
		w.table("settings", []int{0}, Column{Name: "name", Type: Plain}, Column{Name: "doc", Type: JSON})
		w.insert("settings", "site", `{"theme": "dark"}`)
	}}
	for _, key := range []string{"a", "b"} {
		app.calls = append(app.calls, func(w *world) *Response {
			doc := w.get("settings", "site", "doc")
			w.set("settings", "site", "doc", doc[:len(doc)-1]+`, "`+key+`": 1}`)
			return answer(204, "")
		})
	}
	return app
}

type expectation struct {
	kind  Kind     // empty: the outcome is right
	order []int    // that explains it, where it is right
	says  []string // parts of the sentence
	notes string
}

type judged struct {
	name string
	app  application
	run  func(w *world) []*Response
	want expectation
}

func findings() []judged {
	return []judged{
		{"lost update of a balance", bank(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 90)
			return []*Response{answer(200, `{"balance":90}`), answer(200, `{"balance":80}`)}
		}, expectation{kind: LostUpdate, says: []string{"B was answered 200, but its change of accounts[id=1].balance is not in the final state: 90 where every serial order ends with 70"}}},
		{"lost update, nobody knows whose", bank(100, 10, 10), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 90)
			return []*Response{answer(200, `{"balance":90}`), answer(200, `{"balance":90}`)}
		}, expectation{kind: LostUpdate, says: []string{"A and B were both answered 200", "by one of A and B", "90 where every serial order ends with 80"}}},
		{"lost update with a full ledger", ledger(100, 10, 10), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 90)
			return []*Response{w.entry(10, 90), w.entry(10, 90)}
		}, expectation{kind: LostUpdate, says: []string{"accounts[id=1].balance", "90 where every serial order ends with 80"}}},
		{"two of three updates lost", bank(100, 1, 2, 4), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 96)
			return []*Response{answer(200, `{"balance":99}`), answer(200, `{"balance":98}`), answer(200, `{"balance":96}`)}
		}, expectation{kind: LostUpdate, says: []string{"by one of A and B", "96 where every serial order ends with 93"}}},
		{"overwritten document", settings(), func(w *world) []*Response {
			w.set("settings", "site", "doc", `{"a":1.0,"theme":"dark"}`)
			return []*Response{answer(204, ""), answer(204, "")}
		}, expectation{kind: LostUpdate, says: []string{"B was answered 204, but its change of settings[name=site].doc"}}},
		{"the last money taken twice", bank(10, 10, 10), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 0)
			return []*Response{answer(200, `{"balance":0}`), answer(200, `{"balance":0}`)}
		}, expectation{kind: LostUpdate, says: []string{"A and B were both answered 200", "accounts[id=1].balance is 0", "refuse one of them with 422"}}},
		{"the last money taken twice, with a ledger", ledger(10, 10, 10), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 0)
			return []*Response{w.entry(10, 0), w.entry(10, 0)}
		}, expectation{kind: DuplicateEffect, says: []string{"ledger has 3 rows where every serial order leaves 2", "amount=-10"}}},
		{"vanished row", tags(), func(w *world) []*Response {
			w.insert("tags", "blue")
			return []*Response{answer(201, ""), answer(201, "")}
		}, expectation{kind: LostUpdate, says: []string{"A was answered 201, but its change of tags[name=red]", "no such row where every serial order ends with there"}}},
		{"double insert", coupons(), func(w *world) []*Response {
			id, id2 := w.next("coupons"), w.next("coupons")
			w.insert("coupons", id2, "ann", "WELCOME")
			w.insert("coupons", id, "ann", "WELCOME")
			return []*Response{answer(201, `{"id":%d}`, id), answer(201, `{"id":%d}`, id2)}
		}, expectation{kind: DuplicateEffect, says: []string{"coupons has 3 rows where every serial order leaves 2", "user_name=ann code=WELCOME is there more than once", "refuse one of them with 409"}}},
		{"write skew", doctors(), func(w *world) []*Response {
			w.set("doctors", 1, "on_call", "f")
			w.set("doctors", 2, "on_call", "f")
			return []*Response{answer(200, `{"ok":true}`), answer(200, `{"ok":true}`)}
		}, expectation{kind: WriteSkew, says: []string{"no serial order of A and B", "doctors[id=2].on_call is f instead of t", "B answers 200"}}},
		{"part of an effect after a conflict", ledger(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 90)
			a := w.entry(10, 90)
			w.entry(20, 0)
			return []*Response{a, failed(409)}
		}, expectation{kind: PartialEffect, says: []string{"B was answered 409, but a part of its changes is in the final state: ledger has a row account_id=1 amount=-20 that is not there without B"}}},
		{"only answers differ", bank(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			return []*Response{answer(200, `{"balance":70}`), answer(200, `{"balance":70}`)}
		}, expectation{kind: WriteSkew, says: []string{"the final state is that of A then B, but no serial order of A and B gives these answers together", "A answers 200"}}},
		{"an id of somebody else's row", ledger(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			a, b := w.entry(10, 90), w.entry(20, 70)
			a.Body, b.Body = strings.ReplaceAll(b.Body, ":70,", ":90,"), strings.ReplaceAll(a.Body, ":90,", ":70,")
			return []*Response{a, b}
		}, expectation{kind: WriteSkew, says: []string{"refer to each other"}}},
		{"a page with a wrong number", pages(), func(w *world) []*Response {
			w.set("stock", 1, "left", 4)
			return []*Response{w.page(4), w.page(4)}
		}, expectation{kind: LostUpdate, says: []string{"stock[id=1].left", "4 where every serial order ends with 3"}}},
		{"refused although no serial order does", bank(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 90)
			return []*Response{answer(200, `{"balance":90}`), answer(422, `{"error":"insufficient funds"}`)}
		}, expectation{kind: WriteSkew, says: []string{"B answers 422"}}},
	}
}

// tags has a row for each call; a loser of a race rewrites the whole list.
func tags() application {
	app := application{setup: func(w *world) { w.table("tags", []int{0}, Column{Name: "name", Type: Plain}) }}
	for _, name := range []string{"red", "blue"} {
		app.calls = append(app.calls, func(w *world) *Response {
			w.insert("tags", name)
			return answer(201, "")
		})
	}
	return app
}

func failures() []judged {
	withdrawn := func(w *world) *Response {
		w.set("accounts", 1, "balance", 90)
		return answer(200, `{"balance":90}`)
	}
	return []judged{
		{"409 without effect", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), failed(409)}
		}, expectation{order: []int{0}, notes: "B was answered 409 for a conflict and had no effect"}},
		{"503 without effect", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), failed(503)}
		}, expectation{order: []int{0}, notes: "B was answered 503"}},
		{"409 with all of its effect", bank(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			return []*Response{answer(200, `{"balance":90}`), failed(409)}
		}, expectation{kind: PartialEffect, says: []string{"B was answered 409, but its changes are in the final state", "accounts[id=1].balance is 70, and without B it is 90"}}},
		{"conflict that serial orders give", coupons(), func(w *world) []*Response {
			id := w.next("coupons")
			w.insert("coupons", id, "ann", "WELCOME")
			return []*Response{answer(409, `{"error":"already has one"}`), answer(201, `{"id":%d}`, id)}
		}, expectation{order: []int{1, 0}}},
		{"no answer, no effect", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), {Err: "connection reset"}}
		}, expectation{order: []int{0}, notes: "B got no answer; had no effect"}},
		{"broken off by the application", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), {Err: "connection closed", Broken: true}}
		}, expectation{kind: ServerError, says: []string{"the application broke off the request of B without an answer (connection closed)"}}},
		{"no answer, whole effect", bank(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			return []*Response{answer(200, `{"balance":90}`), {Err: "connection reset"}}
		}, expectation{order: []int{0, 1}, notes: "B got no answer; its effect is in the final state"}},
		{"500 for a serialization failure", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), failed(500, "40001")}
		}, expectation{order: []int{0}, notes: "40001"}},
		{"500 for another reason", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), failed(500, "23505")}
		}, expectation{kind: ServerError, says: []string{"B was answered 500, a server error that no serial order gives", "23505"}}},
		{"500 with a part of its effect", ledger(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			return []*Response{w.entry(10, 90), failed(500)}
		}, expectation{kind: PartialEffect, says: []string{"B was answered 500", "accounts[id=1].balance is 70, and without B it is 90"}}},
		{"503 for a deadlock", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), failed(503, "40P01")}
		}, expectation{order: []int{0}, notes: "B was answered 503"}},
		{"a wrong value where the failed one does not write", tags(), func(w *world) []*Response {
			w.insert("tags", "green")
			return []*Response{answer(201, ""), failed(409)}
		}, expectation{kind: WriteSkew, says: []string{"tags[name=green] is there instead of no such row"}}},
		{"deadlock answered 500", bank(100, 10, 20), func(w *world) []*Response {
			return []*Response{withdrawn(w), failed(500, "40P01")}
		}, expectation{kind: Deadlock, says: []string{"deadlock", "B was answered 500"}}},
		{"deadlock that was tried again", bank(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			b := answer(200, `{"balance":70}`)
			b.Codes = []string{"40P01"}
			return []*Response{answer(200, `{"balance":90}`), b}
		}, expectation{order: []int{0, 1}}},
	}
}

func noise() []judged {
	return []judged{
		{"ids in the other order", ledger(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			b := w.entry(20, 70)
			return []*Response{w.entry(10, 90), b}
		}, expectation{order: []int{0, 1}}},
		{"gaps in a sequence", ledger(100, 10, 20), func(w *world) []*Response {
			w.set("accounts", 1, "balance", 70)
			b := w.entry(20, 80)
			w.next("ledger")
			w.next("ledger")
			return []*Response{w.entry(10, 70), b}
		}, expectation{order: []int{1, 0}}},
		{"pages with tokens, links and times", pages(), func(w *world) []*Response {
			w.set("stock", 1, "left", 3)
			b := w.page(3)
			w.next("orders")
			return []*Response{w.page(4), b}
		}, expectation{order: []int{0, 1}}},
		{"document with its keys in another order", settings(), func(w *world) []*Response {
			w.set("settings", "site", "doc", "{\"b\": 1.0,\n \"theme\": \"dark\", \"a\": 1e0}")
			return []*Response{answer(204, ""), answer(204, "")}
		}, expectation{order: []int{0, 1}}},
	}
}

func TestJudge(t *testing.T) {
	for _, c := range slices.Concat(findings(), failures(), noise()) {
		t.Run(c.name, func(t *testing.T) {
			o := c.app.oracle(t)
			out := c.app.apart(c.run)
			v := o.Judge(out)
			check(t, o, v, c.want)
			again := o.Judge(out)
			if again.Key != v.Key || again.Sentence != v.Sentence {
				t.Errorf("the same outcome again: %+v, then %+v", v, again)
			}
		})
	}
}

func check(t *testing.T, o *Oracle, v Verdict, want expectation) {
	t.Helper()
	if v.OK != (want.kind == "") || v.Kind != want.kind {
		t.Fatalf("OK %t, kind %q, want %q\n%s\n%+v\nnoise: %q", v.OK, v.Kind, want.kind, v.Sentence, v.Diff, o.Noise())
	}
	if v.OK && !slices.Equal(v.Order, want.order) {
		t.Errorf("explained by %v, want %v", v.Order, want.order)
	}
	for _, s := range want.says {
		if !strings.Contains(v.Sentence, s) {
			t.Errorf("sentence %q, want in it %q", v.Sentence, s)
		}
	}
	if notes := strings.Join(v.Notes, "\n"); !strings.Contains(notes, want.notes) {
		t.Errorf("notes %q, want in them %q", notes, want.notes)
	}
	if !v.OK && len(v.Diff) == 0 && !strings.HasPrefix(v.Sentence, "no progress") {
		t.Error("a finding without a difference")
	}
}

func TestStuckAndInvariants(t *testing.T) {
	app := bank(100, 10, 20)
	o := app.oracle(t)
	right := func(w *world) []*Response {
		w.set("accounts", 1, "balance", 70)
		return []*Response{answer(200, `{"balance":90}`), answer(200, `{"balance":70}`)}
	}
	out := app.apart(right)
	out.Violated = []string{"books balance"}
	check(t, o, o.Judge(out), expectation{kind: Invariant, says: []string{"books balance does not hold after A and B ran at the same time, though it holds after A then B"}})

	out = app.apart(func(w *world) []*Response {
		w.set("accounts", 1, "balance", 90)
		return []*Response{answer(200, `{"balance":90}`), answer(200, `{"balance":80}`)}
	})
	out.Violated = []string{"books balance"}
	check(t, o, o.Judge(out), expectation{kind: LostUpdate, notes: "books balance does not hold"})

	out = app.apart(func(*world) []*Response { return []*Response{{Err: "time out"}, {Err: "time out"}} })
	out.Stuck = true
	check(t, o, o.Judge(out), expectation{kind: Deadlock, says: []string{"no progress: A and B got no answer"}})

	o = New(2, Hints{})
	for i, order := range append(Orders(2), Orders(2)...) {
		s := app.serial(i, order)
		s.Violated = []string{"books balance"}
		if err := o.AddSerial(order, s); err != nil {
			t.Fatal(err)
		}
	}
	out = app.apart(right)
	out.Violated = []string{"books balance"}
	check(t, o, o.Judge(out), expectation{order: []int{0, 1}, notes: "holds neither here nor after"})
}

func TestKeys(t *testing.T) {
	app := ledger(100, 10, 10)
	o := app.oracle(t)
	lost := func(balance int, swap bool) Verdict {
		return o.Judge(app.apart(func(w *world) []*Response {
			w.seq["ledger"] = 500 + balance
			w.set("accounts", 1, "balance", balance)
			a, b := w.entry(10, 90), w.entry(10, 90)
			if swap {
				a, b = b, a
			}
			return []*Response{a, b}
		}))
	}
	if a, b := lost(90, false), lost(90, true); a.Key != b.Key || a.OK {
		t.Errorf("one finding has two keys: %q and %q", a.Key, b.Key)
	}
	if a, b := lost(90, false), lost(95, false); a.Key == b.Key {
		t.Error("two findings have one key")
	}
}

func TestReady(t *testing.T) {
	app := bank(100, 10, 20)
	o := New(2, Hints{})
	var incomplete *IncompleteError
	if err := o.Ready(); !errors.As(err, &incomplete) || len(incomplete.Missing) != 5 {
		t.Errorf("Ready with no runs: %v", err)
	}
	if err := o.AddSerial([]int{0, 0}, Outcome{}); err == nil {
		t.Error("an order that names an actor twice was recorded")
	}
	if err := o.AddSerial([]int{0}, app.serial(1, []int{1})); err == nil {
		t.Error("an order was recorded with the answers of another")
	}

	runs := 0
	app.calls[0] = func(w *world) *Response {
		if runs++; runs%2 == 0 {
			w.insert("accounts", w.next("accounts"), 0)
		}
		return answer(200, `{"ok":%t}`, runs%4 < 2)
	}
	var unstable *UnstableError
	if _, err := app.learned(); !errors.As(err, &unstable) || unstable.Where != "the number of rows in accounts" || !strings.Contains(err.Error(), "observe.ignore") {
		t.Errorf("rows that come and go: %v", err)
	}
	app.calls[0] = func(*world) *Response {
		runs++
		return answer(200, `{"list":[{"ok":%t}]}`, runs%2 == 0)
	}
	if _, err := app.learned(); !errors.As(err, &unstable) || !strings.Contains(unstable.Where, "$.list[*].ok") || !strings.Contains(err.Error(), "noise.json") {
		t.Errorf("a flag that comes and goes: %v", err)
	}
	app.hints.NoiseJSON = []string{"$.list[0].ok"}
	if _, err := app.learned(); err != nil {
		t.Errorf("a flag that is named as noise: %v", err)
	}
}

func TestCompare(t *testing.T) {
	app := ledger(100, 10, 20)
	o := app.oracle(t)
	o.Names(func(a int) string { return []string{"first", "second"}[a] })
	obs, serial := o.Compare(app.apart(func(w *world) []*Response {
		w.set("accounts", 1, "balance", 90)
		b := w.entry(20, 80)
		return []*Response{w.entry(10, 90), b}
	}))
	if len(serial) != 2 || serial[0].Order != "first then second" || serial[1].Order != "second then first" {
		t.Fatalf("serial outcomes %+v", serial)
	}
	var labels []string
	for i, c := range obs.Cells {
		labels = append(labels, c.Label)
		if c.Wrong != (c.Label == "accounts[id=1].balance") {
			t.Errorf("%s = %s: wrong is %t", c.Label, c.Value, c.Wrong)
		}
		if c.Label == "accounts[id=1].balance" && (c.Value != "90" || serial[0].Cells[i].Value != "70" || serial[1].Cells[i].Value != "70") {
			t.Errorf("balances %q, %q and %q", c.Value, serial[0].Cells[i].Value, serial[1].Cells[i].Value)
		}
	}
	obs, _ = o.Compare(app.apart(func(w *world) []*Response {
		w.set("accounts", 1, "balance", 80)
		return []*Response{w.entry(10, 90), failed(409)}
	}))
	for _, c := range obs.Cells {
		if c.Label == "second answers" && c.Wrong {
			t.Error("an answer for a conflict is marked as wrong")
		}
	}
	if want := []string{"first answers", "second answers", "accounts[id=1].balance"}; !slices.Equal(labels, want) {
		t.Errorf("cells %q, want %q", labels, want)
	}
}
