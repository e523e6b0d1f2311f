package report

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
)

// samples are reports made by hand, as the player would fill them in.
func samples() map[string]*Report {
	return map[string]*Report{
		"lost-update":  lostUpdate(),
		"deadlock":     deadlock(),
		"inside":       inside(),
		"three-actors": threeActors(),
		"long-sql":     longSQL(),
		"no-findings":  noFindings(),
		"budget":       exhausted(),
	}
}

func request(actor int, s string) Row  { return Row{Actor: actor, Step: s, Kind: RowRequest} }
func response(actor int, s string) Row { return Row{Actor: actor, Step: s, Kind: RowResponse} }
func step(actor int, sql, note, touch string) Row {
	return Row{Actor: actor, Step: sql, Note: note, Touch: touch, Kind: RowStep}
}

func of(kind string, r Row) Row { r.Kind = kind; return r }

func cells(pairs ...string) []Cell {
	var c []Cell
	for i := 0; i < len(pairs); i += 2 {
		v, wrong := strings.CutPrefix(pairs[i+1], "!")
		c = append(c, Cell{Label: pairs[i], Value: v, Wrong: wrong})
	}
	return c
}

func withdrawals(instanceB int) []Actor {
	return []Actor{
		{Name: "A", Request: `POST /accounts/1/withdraw {"amount":10}`},
		{Name: "B", Request: `POST /accounts/1/withdraw {"amount":10}`, Instance: instanceB},
	}
}

// lostUpdate: SELECT then UPDATE in a READ COMMITTED transaction, with B's
// UPDATE blocked by A's.
func lostUpdate() *Report {
	const sel, upd = "SELECT balance FROM accounts WHERE id = 1", "UPDATE accounts SET balance = 90 WHERE id = 1"
	return &Report{
		Holdfast: "0.1.0", Scenario: "examples/wallet/withdraw-read-committed.yaml", Name: "withdraw in a READ COMMITTED transaction",
		Actors: withdrawals(1),
		Passes: []Pass{
			{Name: "between statements", Search: "exhaustive", Schedules: 40, Redundant: 2, Complete: true, Took: 212 * time.Millisecond},
			{Name: "inside statements", Search: "exhaustive", Schedules: 18, Inconclusive: 2,
				Reasons: map[string]int{"the application waited for a free pooled connection": 2}, Complete: true, Took: 131 * time.Millisecond},
		},
		Findings: []Finding{{
			Kind:     oracle.LostUpdate,
			Sentence: "Both requests answered 200 but only one withdrawal of 10 is in accounts[id=1].balance: B wrote over A's 90 with its own 90.",
			Schedule: explore.Schedule{0, 0, 1, 1, 0, 1, 0, 1},
			Rows: []Row{
				request(0, `POST /accounts/1/withdraw {"amount":10}`),
				request(1, `POST /accounts/1/withdraw {"amount":10}`),
				step(0, "BEGIN", "", ""),
				step(0, sel, "balance=100", "read accounts[id=1]"),
				step(1, "BEGIN", "", ""),
				step(1, sel, "balance=100", "read accounts[id=1]"),
				step(0, upd, "UPDATE 1", "lock accounts[id=1]"),
				of(RowBlocked, step(1, upd, "waits for A", "lock accounts[id=1]")),
				step(0, "COMMIT", "", "publish accounts[id=1]"),
				of(RowWoke, step(1, upd, "UPDATE 1", "")),
				response(0, `200 {"balance":90}`),
				step(1, "COMMIT", "", "publish accounts[id=1]"),
				response(1, `200 {"balance":90}`),
			},
			Observed: Outcome{Cells: cells("A answers", `200 {"balance":90}`, "B answers", `200 {"balance":90}`, "accounts[id=1].balance", "!90")},
			Serial: []Outcome{
				{Order: "A then B", Cells: cells("A answers", `200 {"balance":90}`, "B answers", `200 {"balance":80}`, "accounts[id=1].balance", "80")},
				{Order: "B then A", Cells: cells("A answers", `200 {"balance":80}`, "B answers", `200 {"balance":90}`, "accounts[id=1].balance", "80")},
			},
			Times: 12, Confirmed: 3, Replays: 3, File: ".holdfast/withdraw-1.json",
		}},
		Background: []string{"SELECT 1 FROM health"},
		Notes:      []string{"accounts.updated_at differs between two identical serial runs and is not compared."},
		SerialRuns: 8, Took: 1240 * time.Millisecond,
	}
}

func deadlock() *Report {
	const from1, from2 = "UPDATE accounts SET balance = balance - 5 WHERE id = 1", "UPDATE accounts SET balance = balance - 7 WHERE id = 2"
	const to1, to2 = "UPDATE accounts SET balance = balance + 7 WHERE id = 1", "UPDATE accounts SET balance = balance + 5 WHERE id = 2"
	return &Report{
		Holdfast: "0.1.0", Scenario: "examples/wallet/transfer-deadlock.yaml", Name: "two transfers in opposite directions",
		Actors: []Actor{
			{Name: "A", Request: `POST /transfer {"from":1,"to":2,"amount":5}`},
			{Name: "B", Request: `POST /transfer {"from":2,"to":1,"amount":7}`},
		},
		Passes: []Pass{{Name: "between statements", Search: "exhaustive", Schedules: 22, Complete: true, Took: 318 * time.Millisecond}},
		Findings: []Finding{{
			Kind:     oracle.Deadlock,
			Sentence: "A and B lock accounts[id=1] and accounts[id=2] in opposite orders; the database ended B with 40P01 and B answered 500.",
			Schedule: explore.Schedule{0, 0, 1, 1, 0, 1, 0},
			Rows: []Row{
				request(0, `POST /transfer {"from":1,"to":2,"amount":5}`),
				request(1, `POST /transfer {"from":2,"to":1,"amount":7}`),
				step(0, "BEGIN", "", ""),
				step(0, from1, "UPDATE 1", "lock accounts[id=1]"),
				step(1, "BEGIN", "", ""),
				step(1, from2, "UPDATE 1", "lock accounts[id=2]"),
				of(RowBlocked, step(0, to2, "waits for B", "lock accounts[id=2]")),
				step(1, to1, "ERROR 40P01: deadlock detected", "lock accounts[id=1], unlock accounts[id=2]"),
				of(RowWoke, step(0, to2, "goes on, UPDATE 1", "")),
				response(1, `500 {"error":"internal server error"}`),
				step(0, "COMMIT", "", "publish accounts[id=1], publish accounts[id=2]"),
				response(0, `200 {"ok":true}`),
			},
			Observed: Outcome{Cells: cells("A answers", `200 {"ok":true}`, "B answers", `!500 {"error":"internal server error"}`,
				"accounts[id=1].balance", "!95", "accounts[id=2].balance", "!105")},
			Serial: []Outcome{{Order: "A then B, B then A", Cells: cells("A answers", `200 {"ok":true}`, "B answers", `200 {"ok":true}`,
				"accounts[id=1].balance", "102", "accounts[id=2].balance", "98")}},
			Times: 6, Confirmed: 3, Replays: 3, File: ".holdfast/transfer-1.json",
		}},
		SerialRuns: 8, Took: 2910 * time.Millisecond,
	}
}

// inside: one INSERT ... WHERE NOT EXISTS per request, stopped after its
// snapshot.
func inside() *Report {
	const ins = "INSERT INTO redemptions (code, user_id) SELECT 'SPRING', 7 WHERE NOT EXISTS (SELECT 1 FROM redemptions WHERE code = 'SPRING')"
	return &Report{
		Holdfast: "0.1.0", Scenario: "examples/wallet/insert-where-not-exists.yaml", Name: "redeem a code once",
		Actors: []Actor{{Name: "A", Request: "POST /redeem/SPRING"}, {Name: "B", Request: "POST /redeem/SPRING"}},
		Passes: []Pass{
			{Name: "between statements", Search: "exhaustive", Schedules: 2, Complete: true, Took: 22 * time.Millisecond},
			{Name: "inside statements", Search: "exhaustive", Schedules: 4, Complete: true, Took: 40 * time.Millisecond},
		},
		Findings: []Finding{{
			Kind: oracle.DuplicateEffect, Inside: true,
			Sentence: "Both requests redeemed the code: redemptions has 2 rows where every serial order has 1.",
			Schedule: explore.Schedule{0, 1, 0, 1},
			Rows: []Row{
				request(0, "POST /redeem/SPRING"),
				request(1, "POST /redeem/SPRING"),
				of(RowPause, step(0, ins, "", "read redemptions[code=SPRING]")),
				of(RowPause, step(1, ins, "", "read redemptions[code=SPRING]")),
				step(0, ins, "INSERT 0 1", "write redemptions[code=SPRING]"),
				response(0, `201 {"redeemed":true}`),
				step(1, ins, "INSERT 0 1", "write redemptions[code=SPRING]"),
				response(1, `201 {"redeemed":true}`),
			},
			Observed: Outcome{Cells: cells("A answers", `201 {"redeemed":true}`, "B answers", `201 {"redeemed":true}`, "redemptions", "!2 rows")},
			Serial: []Outcome{
				{Order: "A then B", Cells: cells("A answers", `201 {"redeemed":true}`, "B answers", `200 {"redeemed":false}`, "redemptions", "1 row")},
				{Order: "B then A", Cells: cells("A answers", `200 {"redeemed":false}`, "B answers", `201 {"redeemed":true}`, "redemptions", "1 row")},
			},
			Times: 2, Confirmed: 3, Replays: 3, File: ".holdfast/redeem once.json",
		}},
		SerialRuns: 8, Took: 700 * time.Millisecond,
	}
}

// threeActors: two doctors go off duty while a third request reads the list.
func threeActors() *Report {
	const sel = "SELECT count(*) FROM duty WHERE on_call"
	orders := []string{"anna then ben then list", "anna then list then ben", "ben then anna then list", "ben then list then anna", "list then anna then ben", "list then ben then anna"}
	left := []string{"1", "1", "1", "1", "1", "1"}
	list := []string{`["ben"]`, `["ben"]`, `["anna"]`, `["anna"]`, `["anna","ben"]`, `["anna","ben"]`}
	f := Finding{
		Kind:     oracle.WriteSkew,
		Sentence: "Both doctors went off duty because each saw the other still on duty; nobody is left on call.",
		Schedule: explore.Schedule{0, 1, 0, 2, 1},
		Rows: []Row{
			request(0, "POST /duty/anna/off"), request(1, "POST /duty/ben/off"), request(2, "GET /duty"),
			step(0, sel, "count=2", "read duty"),
			step(1, sel, "count=2", "read duty"),
			step(0, "UPDATE duty SET on_call = false WHERE name = 'anna'", "UPDATE 1", "write duty[name=anna]"),
			response(0, "204"),
			step(2, "SELECT name FROM duty WHERE on_call ORDER BY name", "name=ben", "read duty"),
			step(1, "UPDATE duty SET on_call = false WHERE name = 'ben'", "UPDATE 1", "write duty[name=ben]"),
			response(1, "204"),
			response(2, `200 ["ben"]`),
		},
		Observed: Outcome{Cells: cells("anna answers", "204", "ben answers", "!204", "list answers", `200 ["ben"]`, "duty where on_call", "!0 rows")},
		Times:    9, Confirmed: 2, Replays: 3, File: ".holdfast/duty-1.json",
	}
	for i, o := range orders {
		anna, ben := "204", "409 last on duty"
		if strings.Index(o, "ben") < strings.Index(o, "anna") {
			anna, ben = ben, anna
		}
		f.Serial = append(f.Serial, Outcome{Order: o, Cells: cells("anna answers", anna, "ben answers", ben, "list answers", "200 "+list[i], "duty where on_call", left[i]+" row")})
	}
	return &Report{
		Holdfast: "0.1.0", Scenario: "duty.yaml", Name: "duty.yaml",
		Actors:   []Actor{{Name: "anna", Request: "POST /duty/anna/off"}, {Name: "ben", Request: "POST /duty/ben/off", Instance: 1}, {Name: "list", Request: "GET /duty"}},
		Passes:   []Pass{{Name: "between statements", Search: "preemptions <= 2", Schedules: 61, Redundant: 4, LeftOut: "schedules with 3 or more preemptions", Took: 402 * time.Millisecond}},
		Findings: []Finding{f}, SerialRuns: 30, Took: 1930 * time.Millisecond,
	}
}

// longSQL: statements of several lines, wide and combining runes, mark-up and
// control characters that must reach no reader.
func longSQL() *Report {
	const sel = `SELECT i.id, i.title, i.stock, i.reserved, c.name AS category, c.discount
	FROM items AS i
	JOIN categories AS c ON c.id = i.category_id
	LEFT JOIN suppliers AS s ON s.id = i.supplier_id
	WHERE i.title = '東京タワーの模型 <script>alert(1)</script>' AND i.stock - i.reserved > 0
	ORDER BY i.id LIMIT 1`
	const ins = "INSERT INTO orders (id, item_id, customer, address, note, created_at, updated_at) VALUES (nextval('orders_id_seq'), 42, 'Jose\u0301 Mu\u0308ller', 'Straße 1, 10115 Berlin', '\x1b[2J\x00bell\x07', now(), now()) RETURNING id"
	return &Report{
		Holdfast: "0.1.0", Scenario: "shop/注文.yaml", Name: "注文: order the last item",
		Actors: []Actor{
			{Name: "A", Request: `POST /orders {"item":"東京タワーの模型","customer":"José Müller","address":"Straße 1, 10115 Berlin"}`},
			{Name: "B", Request: `POST /orders {"item":"東京タワーの模型","customer":"李小龍"}`, Instance: 1},
		},
		Passes: []Pass{{Name: "between statements", Search: "exhaustive", Schedules: 6, Complete: true, Took: 61 * time.Millisecond}},
		Findings: []Finding{{
			Kind:     oracle.DuplicateEffect,
			Sentence: "The last 東京タワーの模型 was sold twice: orders has 2 rows where every serial order has 1.",
			Schedule: explore.Schedule{0, 1, 0, 1, 0, 1},
			Rows: []Row{
				request(0, `POST /orders {"item":"東京タワーの模型","customer":"José Müller"}`),
				request(1, `POST /orders {"item":"東京タワーの模型","customer":"李小龍"}`),
				step(0, sel, "id=42, title=東京タワーの模型, stock=1, reserved=0, category=お土産, discount=NULL", "read items, read categories, read suppliers"),
				step(1, sel, "id=42, title=東京タワーの模型, stock=1, reserved=0, category=お土産, discount=NULL", "read items, read categories, read suppliers"),
				step(0, ins, "id=1", "write orders[id=1], write items[id=42]"),
				response(0, `201 {"id":1,"note":"</text><script>alert(2)</script>"}`),
				step(1, strings.ReplaceAll(ins, "Jose\u0301 Mu\u0308ller", "李小龍"), "id=2", "write orders[id=2], write items[id=42]"),
				response(1, `201 {"id":2}`),
			},
			Observed: Outcome{Cells: cells("A answers", `201 {"id":1,"note":"</text><script>alert(2)</script>"}`, "B answers", `!201 {"id":2}`,
				"orders", `![{"id":1,"item_id":42,"customer":"José Müller"},{"id":2,"item_id":42,"customer":"李小龍"}]`)},
			Serial: []Outcome{
				{Order: "A then B", Cells: cells("A answers", `201 {"id":1,"note":"</text><script>alert(2)</script>"}`, "B answers", `409 {"error":"sold out"}`, "orders", `[{"id":1,"item_id":42,"customer":"José Müller"}]`)},
				{Order: "B then A", Cells: cells("A answers", `409 {"error":"sold out"}`, "B answers", `201 {"id":1}`, "orders", `[{"id":1,"item_id":42,"customer":"李小龍"}]`)},
			},
			Times: 2, Replays: 0,
		}},
		SerialRuns: 8, Took: 640 * time.Millisecond,
	}
}

func noFindings() *Report {
	return &Report{
		Holdfast: "0.1.0", Scenario: "examples/wallet/withdraw-atomic.yaml", Name: "withdraw by one guarded UPDATE",
		Actors: withdrawals(0),
		Passes: []Pass{
			{Name: "between statements", Search: "exhaustive", Schedules: 3, Complete: true, Took: 41 * time.Millisecond},
			{Name: "inside statements", Search: "exhaustive", Schedules: 6, Complete: true, Took: 66 * time.Millisecond},
		},
		SerialRuns: 8, Took: 690 * time.Millisecond,
	}
}

func exhausted() *Report {
	r := noFindings()
	r.Scenario, r.Name = "checkout.yaml", "checkout"
	r.Passes = []Pass{
		{Name: "between statements", Search: "random, seed 7", Schedules: 500, Redundant: 0, Inconclusive: 31,
			Reasons: map[string]int{
				"timed out after 5 s": 3,
				"the application waited for a free pooled connection":   21,
				"a background statement could not be told from A's one": 7,
			},
			LeftOut: "the budget of 500 schedules was used up; the number of schedules is unknown", Took: 83*time.Second + 400*time.Millisecond},
	}
	r.Notes = []string{`B's step "CALL settle($1)" has an unknown footprint and was taken to conflict with everything.`}
	r.Took = 97 * time.Second
	return r
}
