package snapshot

import (
	"fmt"
	"strings"
)

// NeedTemplateError says that the recorded state can not be restored row by
// row. The caller makes the database anew (CREATE DATABASE ... TEMPLATE) and
// calls [Take] again.
type NeedTemplateError struct {
	// Table is the first table that could not be restored; empty when the
	// schema has changed.
	Table string
	// Changes are lines of the schema's fingerprint that are gone ("- ...") or
	// new ("+ ..."), at most 10.
	Changes []string
	// Err is the server's error, if there was one.
	Err error
}

func (e *NeedTemplateError) Error() string {
	var s string
	switch {
	case len(e.Changes) > 0:
		s = "the schema of the database has changed since its state was recorded (" + strings.Join(e.Changes, "; ") + ")"
	case e.Err != nil:
		s = fmt.Sprintf("restore table %s: the server refused", e.Table)
	default:
		s = fmt.Sprintf("restore table %s: its content still differs from the recorded state afterwards", e.Table)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + ": make the database anew from its template"
}

func (e *NeedTemplateError) Unwrap() error { return e.Err }

// BusyError says that another session holds a lock on what a reset must
// change: the application is not at rest.
type BusyError struct {
	Table string
	Err   error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("restore table %s: another session holds a lock on it (%v): "+
		"end the application's open transactions first", e.Table, e.Err)
}

func (e *BusyError) Unwrap() error { return e.Err }

// PrivilegeError says that the role may not switch triggers off.
type PrivilegeError struct{ Err error }

func (e *PrivilegeError) Error() string {
	return fmt.Sprintf("switch off triggers and foreign keys for resets (session_replication_role): %v: "+
		"connect as a superuser, or as one run GRANT SET ON PARAMETER session_replication_role TO the role (PostgreSQL 15 or later)", e.Err)
}

func (e *PrivilegeError) Unwrap() error { return e.Err }
