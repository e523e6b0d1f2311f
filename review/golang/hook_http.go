package golang

import (
	"go/types"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// request knows what a handler is called with and answers through.
func (c *apiCall) request() (*val, bool) {
	switch c.id {
	case "net/http.Error", "net/http.NotFound":
		c.e.failed = true
		return unknown(), true
	case "net/http.NewRequest", "net/http.NewRequestWithContext":
		return c.newRequest(), true
	case "net/http.(*Client).Do":
		return c.do(), true
	case "github.com/go-chi/chi.URLParam", "github.com/go-chi/chi.URLParamFromCtx":
		if k, ok := constString(c.arg(1)); ok {
			return plainVal(effect.In(word(k))), true
		}
	case "github.com/gorilla/mux.Vars":
		return &val{kind: requestVal, name: "vars", v: effect.In("vars")}, true
	case "github.com/go-chi/render.DecodeJSON", "github.com/go-chi/render.Decode":
		if len(c.args) == 2 {
			c.e.fill(c.args[1], plainVal(effect.In("body")), c.at)
			return plainVal(effect.Unknown()), true
		}
	}
	if c.recv == nil || c.recv.kind != requestVal {
		return nil, false
	}
	return c.requestMethod()
}

func (c *apiCall) requestMethod() (*val, bool) {
	m := c.method()
	switch m {
	case "WriteHeader", "Status", "AbortWithStatus", "SendStatus", "JSON", "String", "XML", "HTML", "AbortWithStatusJSON", "AbortWithError", "IndentedJSON", "PureJSON", "NoContent", "Blob", "JSONPretty", "Data", "Redirect":
		c.answer()
		if c.f.Signature().Results().Len() == 1 && !isErrorType(c.f.Signature().Results().At(0).Type()) {
			return c.recv, true
		}
		if c.f.Signature().Results().Len() == 1 {
			return plainVal(effect.Lit("nil")), true
		}
		return unknown(), true
	case "Bind", "BindJSON", "ShouldBind", "ShouldBindJSON", "BodyParser", "ShouldBindBodyWith", "BindWith", "ShouldBindWith", "ReadJSON", "MustBindWith":
		if len(c.args) > 0 {
			c.e.fill(c.args[0], plainVal(effect.In("body")), c.at)
			return plainVal(effect.Unknown()), true
		}
		return c.recv, true // fiber v3: c.Bind().Body(&x)
	case "ShouldBindUri", "ShouldBindQuery", "BindQuery", "BindUri", "QueryParser", "ParamsParser":
		if len(c.args) > 0 {
			c.e.fill(c.args[0], &val{kind: plain, v: effect.In("query")}, c.at)
			return plainVal(effect.Unknown()), true
		}
	case "Body":
		if len(c.args) == 1 {
			c.e.fill(c.args[0], plainVal(effect.In("body")), c.at)
			return plainVal(effect.Unknown()), true
		}
		return plainVal(effect.In("body")), true
	case "Context", "UserContext", "Request", "Query", "Header", "Response", "Writer", "Cookies", "WithContext", "Done", "Err", "Locals", "Value", "Get", "MustGet", "GetString", "GetInt", "GetHeader",
		"PathValue", "FormValue", "PostFormValue", "Param", "Params", "QueryParam", "PostForm", "DefaultQuery", "Cookie", "GetQuery", "ParamsInt", "QueryInt", "GetUint", "GetInt64", "URLParam", "DefaultPostForm":
		return c.input(), true
	}
	if c.f.Signature().Results().Len() == 0 {
		return unknown(), true
	}
	return c.withNoError(plainVal(effect.In(word(snake(m))))), true
}

// input is a part of the request: named by the constant that asks for it, so
// that the same thing has one name everywhere.
func (c *apiCall) input() *val {
	if len(c.args) > 0 {
		for _, a := range c.args {
			if k, ok := constString(a.v); ok {
				return c.withNoError(plainVal(effect.In(word(k))))
			}
			if a.v.Kind == effect.ConstValue {
				return c.withNoError(plainVal(effect.In("ctx_" + word(a.v.Name))))
			}
		}
		if c.args[0].kind == structVal || c.args[0].typ != nil {
			return c.withNoError(plainVal(effect.In("ctx_" + word(shortName(typeName(c.args[0].typ))))))
		}
		return c.withNoError(plainVal(effect.In(word(snake(c.method())))))
	}
	if c.method() == "Err" || c.method() == "Done" {
		return unknown()
	}
	return &val{kind: requestVal, name: c.method(), v: c.recv.v}
}

// requestField is a field of a request.
func (e *ev) requestField(base *val, f *types.Var) *val {
	switch f.Name() {
	case "Method":
		return plainVal(effect.In("method"))
	case "Path", "RequestURI", "Host", "RemoteAddr":
		return plainVal(effect.In(strings.ToLower(f.Name())))
	case "Body", "URL", "Header", "Form", "PostForm", "Request", "Writer", "Params", "Response", "Value", "Data", "Job", "Args":
		if base.name == "message" {
			break
		}
		return &val{kind: requestVal, name: f.Name(), v: base.v, typ: f.Type()}
	}
	if base.v.Kind == effect.PathValue {
		return plainVal(path(base.v, snake(f.Name())))
	}
	return plainVal(effect.In(snake(f.Name())))
}

// answer looks at the status of an answer.
func (c *apiCall) answer() {
	if code, ok := statusOf(c.args); ok && code >= 400 || strings.HasSuffix(c.method(), "Error") {
		c.e.failed = true
		return
	}
	c.e.emit(effect.Step{Op: effect.Ack, Pos: c.pos(), On: &effect.Resource{Kind: effect.RemoteKind, Name: "client"}, OnErr: effect.OnDrop})
}

func statusOf(args []*val) (int, bool) {
	for _, a := range args {
		if a == nil || a.v.Kind != effect.ConstValue {
			continue
		}
		if n, err := strconv.Atoi(a.v.Name); err == nil && n >= 100 && n < 600 {
			return n, true
		}
	}
	return 0, false
}

// markAnswer recognises helpers that answer an error: they get the response
// writer, and either a status of 400 and more or a name that says so.
func (e *ev) markAnswer(name string, args []*val) {
	writer := false
	for _, a := range args {
		writer = writer || a != nil && a.kind == requestVal && a.name != "r"
	}
	if !writer {
		return
	}
	if n, ok := statusOf(args); ok {
		e.failed = e.failed || n >= 400
		return
	}
	l := strings.ToLower(name)
	for _, w := range []string{"err", "fail", "abort", "badrequest", "notfound", "unauthorized", "forbidden", "internal", "problem", "reject"} {
		if strings.Contains(l, w) {
			e.failed = true
		}
	}
}

// newRequest remembers the method and the address until the request is sent.
func (c *apiCall) newRequest() *val {
	args := c.args
	if strings.HasSuffix(c.id, "WithContext") && len(args) > 0 {
		args = args[1:]
	}
	r := &val{kind: structVal, fields: map[string]*val{}, typ: c.f.Signature().Results().At(0).Type(), v: effect.Apply("request", values(args)...)}
	for i, n := range []string{"Method", "URL", "Body"} {
		if i < len(args) {
			r.fields[n] = c.e.deref(args[i])
		}
	}
	return c.withNoError(r)
}

func (c *apiCall) do() *val {
	method, url, body := effect.Unknown(), effect.Unknown(), effect.Unknown()
	if len(c.args) == 1 {
		if r := c.e.deref(c.args[0]); r.kind == structVal {
			for n, p := range map[string]*effect.Value{"Method": &method, "URL": &url, "Body": &body} {
				if f := r.fields[n]; f != nil {
					*p = f.v
				}
			}
		}
	}
	m, _ := constString(method)
	on := &effect.Resource{Kind: effect.RemoteKind, Name: hostOf(url)}
	bind := c.bind("resp")
	s := effect.Step{Op: effect.Send, Pos: c.pos(), Bind: bind, On: on, OnErr: effect.OnBind, Note: m}
	if m == "GET" || m == "HEAD" {
		s.Op = effect.Read
	} else {
		s.Set = []effect.Assign{{Col: "url", Val: url}, {Col: "body", Val: body}}
	}
	c.e.emit(s)
	return c.result(bind, plainVal(effect.Var(bind)))
}

// hostOf is the host of a constant URL; "http" for others.
func hostOf(url effect.Value) string {
	if url.Kind == effect.ApplyValue && url.Name == "concat" && len(url.Args) > 0 {
		url = url.Args[0]
	}
	s, ok := constString(url)
	if !ok {
		return "http"
	}
	_, rest, found := strings.Cut(s, "://")
	if !found {
		return "http"
	}
	host, _, _ := strings.Cut(rest, "/")
	if host == "" {
		return "http"
	}
	return host
}
