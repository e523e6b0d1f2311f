// Package gin is a stub for type-checking test data.
package gin

type Context struct{}

func (*Context) Param(k string) string            { return "" }
func (*Context) ShouldBindJSON(v any) error       { return nil }
func (*Context) JSON(code int, v any)             {}
func (*Context) AbortWithStatusJSON(c int, v any) {}

type H map[string]any

type HandlerFunc func(*Context)

type Engine struct{}

func (*Engine) POST(p string, h ...HandlerFunc) {}
