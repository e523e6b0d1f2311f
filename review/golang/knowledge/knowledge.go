// Package knowledge says which library functions do what.
//
// # Model
//
// Most of it is data: each function of a library is written as a small effect
// program in the text form of review/effect (files *.effect), with the names of
// its parameters as variables. `os.WriteFile` is
//
//	func "os.WriteFile"(name, data, perm) {
//	  write truncate file:"*"[path = name]
//	  write fill file:"*"[path = name] set(* = data)
//	}
//
// A parameter that is a struct is read by Go field names (`in.Bucket`); where the
// call does not set the field, the condition or value that mentions it is left
// out. A name that ends in `?Field` is a variant for calls that do set it; a name
// `path#Method` is the method of any type of that package. Version suffixes of
// import paths are left out, so one entry serves redis v8 and v9.
//
// What can not be said so (a query builder, an open file) is code in the front
// end; the types and names that code starts from are here too.
//
// # Promise and limits
//
// Adding a library is adding lines here. A function that is not known has no
// effect, and its result derives from its arguments.
package knowledge

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/review/effect"
)

//go:embed *.effect
var files embed.FS

// funcs is parsed once, at the first look.
var funcs = sync.OnceValues(func() (map[string]*effect.Func, error) {
	names, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	out := map[string]*effect.Func{}
	for _, n := range names {
		text, err := files.ReadFile(n.Name())
		if err != nil {
			return nil, err
		}
		p, err := effect.Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name(), err)
		}
		for id, f := range p.Funcs {
			if out[id] != nil {
				return nil, fmt.Errorf("%s: %s is there twice", n.Name(), id)
			}
			out[id] = f
		}
	}
	return out, nil
})

var version = regexp.MustCompile(`/v[0-9]+([./#]|$)|\.v[0-9]+([./#]|$)`)

// Plain takes version suffixes out of the import path in a name.
func Plain(id string) string {
	return version.ReplaceAllString(id, "$1$2")
}

// Lookup finds what is known of a function: the exact name, or the method by
// name in its package. has tells which struct fields the call sets. It returns
// nil for what is not known.
func Lookup(id string, has func(field string) bool) *effect.Func {
	known, err := funcs()
	if err != nil {
		panic(err) // the files are part of the program and held by a test
	}
	id = Plain(id)
	for _, name := range []string{id, byPackage(id)} {
		for _, v := range variants[name] {
			if f := known[name+"?"+v]; f != nil && has(v) {
				return f
			}
		}
		if f := known[name]; f != nil {
			return f
		}
	}
	return nil
}

// byPackage turns path.Type.Method and path.(*Type).Method into path#Method.
func byPackage(id string) string {
	slash := strings.LastIndexByte(id, '/') + 1
	first := strings.IndexByte(id[slash:], '.')
	last := strings.LastIndexByte(id, '.')
	if first < 0 || last == slash+first {
		return ""
	}
	return id[:slash+first] + "#" + id[last+1:]
}

// variants are the fields that change what a function does, in the order in
// which they are asked for.
var variants = map[string][]string{
	"github.com/aws/aws-sdk-go/service/s3#PutObject":            {"IfNoneMatch", "IfMatch"},
	"github.com/aws/aws-sdk-go-v2/service/s3#PutObject":         {"IfNoneMatch", "IfMatch"},
	"github.com/aws/aws-sdk-go-v2/service/s3#DeleteObject":      {"IfMatch"},
	"github.com/aws/aws-sdk-go/service/s3#PutObjectWithContext": {"IfNoneMatch", "IfMatch"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb#PutItem":     {"ConditionExpression"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb#UpdateItem":  {"ConditionExpression"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb#DeleteItem":  {"ConditionExpression"},
}

// Known are the names of all functions, for tests and documentation.
func Known() ([]string, error) {
	known, err := funcs()
	out := make([]string, 0, len(known))
	for id := range known {
		out = append(out, id)
	}
	return out, err
}
