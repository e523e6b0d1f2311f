// Package oracle decides whether what is seen after concurrent requests equals
// what some serial order of them leaves, and if not, what was lost.
//
// # Model
//
// An [Outcome] is all that can be seen after a run: the rows of the observed
// tables and the answers. The oracle is first shown the outcomes of every
// serial order of every subset of the requests ([Orders]), each at least twice
// ([Oracle.AddSerial]). What differs between two runs of the same order is
// noise: it comes from a clock, a sequence or a random generator. Noise is kept
// by place (a column, a path in a JSON body, a gap in a text), never by looking
// at values alone:
//
//   - moments are masked. Two coarse clock readings can be equal by chance, so
//     equality of moments means nothing;
//   - identities are renamed one-to-one, so that a foreign key must still point
//     to its row and an id in an answer must still be the id in the table. Equal
//     numbers mean something only within one name space (a column, what refers
//     to it, and places in answers that followed it in every serial run): the
//     17th order and the 17th payment have nothing in common. Long random
//     values form one name space everywhere;
//   - other noise is masked.
//
// What an identity was before the requests began is a constant and keeps its
// value. Rows are a multiset; the outcome is brought into a canonical form by
// colour refinement over the identities, so two outcomes that differ only in
// the choice of identities and the order of rows have the same form.
//
// A run is right if its form equals that of a serial order of the acknowledged
// requests, with or without those that failed with a conflict, a server error
// or no answer. Otherwise [Oracle.Judge] names the kind of finding, by comparing
// the outcome cell by cell with the serial ones.
//
// # Promise and limits
//
// A difference that only identities, clocks or the order of rows can explain is
// no finding. What differs with the clock but is no moment (the seconds that are
// left, a date that changes at midnight between two runs) has to be named in
// the hints unless two serial runs show it. The price: a wrong value in a place that is noise is not
// seen, nor is a wrong link between places whose name space could not be told
// (sequences that ran in step in every serial run; the caller should advance
// different sequences by different amounts before the second runs). The order
// of rows that have equal neighbourhoods is found by trying at most a fixed
// number of choices; outcomes with large symmetric structures that are not
// interchangeable could be taken for different.
//
// An [Oracle] is not safe for use by several goroutines at once.
package oracle
