package report

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/rules"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// The types below are the part of SARIF 2.1.0 (OASIS Standard, errata 01) that
// is written. Section numbers are those of the standard.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool                `json:"tool"`
	Results []sarifResult            `json:"results"`
	Bases   map[string]sarifArtifact `json:"originalUriBaseIds"` // 3.14.14
	Kind    string                   `json:"columnKind"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	URI     string      `json:"informationUri"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID       string         `json:"id"`
	Short    sarifText      `json:"shortDescription"`
	Full     sarifText      `json:"fullDescription"`
	Help     sarifText      `json:"help"`
	Defaults map[string]any `json:"defaultConfiguration"`
	Props    map[string]any `json:"properties"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string            `json:"ruleId"`
	RuleIndex int               `json:"ruleIndex"`
	Level     string            `json:"level"`
	Message   sarifText         `json:"message"`
	Locations []sarifLocation   `json:"locations"`
	Flows     []sarifCodeFlow   `json:"codeFlows"`
	Prints    map[string]string `json:"partialFingerprints"`
	Props     map[string]any    `json:"properties"`
}

type sarifCodeFlow struct { // 3.36
	Message sarifText     `json:"message"`
	Threads []sarifThread `json:"threadFlows"`
}

type sarifThread struct { // 3.37
	ID        string            `json:"id"`
	Message   sarifText         `json:"message"`
	Locations []sarifThreadStep `json:"locations"`
}

type sarifThreadStep struct { // 3.38; executionOrder is common to the threads of a flow
	Location   sarifLocation `json:"location"`
	Order      int           `json:"executionOrder"`
	Importance string        `json:"importance"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Message  *sarifText     `json:"message,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI  string `json:"uri,omitempty"`
	Base string `json:"uriBaseId,omitempty"`
	Desc any    `json:"description,omitempty"`
}

type sarifRegion struct {
	Line int `json:"startLine"`
	Col  int `json:"startColumn,omitempty"`
}

const baseID = "SRCROOT"

// SARIF writes the report as SARIF 2.1.0: a codeFlow per finding, a threadFlow
// per actor.
func SARIF(w io.Writer, r *Report, all []*rules.Rule) error {
	run := sarifRun{Results: []sarifResult{}, Kind: "utf16CodeUnits",
		Bases: map[string]sarifArtifact{baseID: {Desc: sarifText{"The root of the analysed module."}}},
		Tool:  sarifTool{sarifDriver{Name: "holdfast review", Version: r.Version, URI: "https://github.com/holdfast-dev/holdfast", Rules: []sarifRule{}}}}
	for _, rule := range all {
		tags := []string{"external/cwe/" + rule.CWE}
		for _, a := range rule.ASVS {
			tags = append(tags, "external/asvs-5/"+a)
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: rule.ID, Short: sarifText{rule.Title}, Full: sarifText{rule.Text},
			Help: sarifText{rule.Text}, Defaults: map[string]any{"level": level(rule.Severity)}, Props: map[string]any{"tags": tags}})
	}
	for _, f := range r.Findings {
		index := slices.IndexFunc(all, func(x *rules.Rule) bool { return x.ID == f.Rule.ID })
		res := sarifResult{RuleID: f.Rule.ID, RuleIndex: index, Level: level(f.Severity),
			Message:   sarifText{short(people(f.Message), maxOutcome) + "\nwrong: " + short(people(f.Witness.Got), maxOutcome) + "\nfix: " + f.Fix},
			Locations: []sarifLocation{location(f.Pos, "")}, Flows: []sarifCodeFlow{flow(f.Witness)},
			Prints: map[string]string{"holdfast/v1": f.Fingerprint()},
			Props:  map[string]any{"severity": f.Severity, "confidence": f.Confidence}}
		if why := r.Removed[f.Fingerprint()]; why != "" {
			res.Props["removedProtection"] = why
		}
		run.Results = append(run.Results, res)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(sarifLog{Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0", Runs: []sarifRun{run}})
}

func level(s rules.Severity) string {
	switch s {
	case rules.Blocking:
		return "error"
	case rules.ShouldFix:
		return "warning"
	}
	return "note"
}

func location(p effect.Pos, message string) sarifLocation {
	l := sarifLocation{}
	if p.File != "" {
		l.Physical = &sarifPhysical{Artifact: sarifArtifact{URI: (&url.URL{Path: p.File}).String(), Base: baseID}}
		if p.Line > 0 {
			l.Physical.Region = &sarifRegion{Line: p.Line, Col: p.Col}
		}
	}
	if message != "" {
		l.Message = &sarifText{message}
	}
	return l
}

// flow is the schedule: each actor's steps in its own thread, numbered through.
func flow(w *witness.Witness) sarifCodeFlow {
	f := sarifCodeFlow{Message: sarifText{short(people(w.Got), maxOutcome)}}
	for i, a := range w.Actors {
		t := sarifThread{ID: a.Name, Message: sarifText{fmt.Sprintf("%s: %s", a.Name, a.Entry.Title())}, Locations: []sarifThreadStep{}}
		for order, l := range lines(w) {
			if l.actor != i {
				continue
			}
			text := l.what
			if l.then != "" {
				text += ": " + l.then
			}
			pos := a.Entry.Pos
			step := w.Events[order].Step
			if step != nil {
				pos = step.Pos
			}
			importance := "important"
			if step != nil && (step == w.Read || step == w.Write || step == w.Other) {
				importance = "essential"
			}
			t.Locations = append(t.Locations, sarifThreadStep{Location: location(pos, text), Order: order + 1, Importance: importance})
		}
		if len(t.Locations) > 0 {
			f.Threads = append(f.Threads, t)
		}
	}
	return f
}
