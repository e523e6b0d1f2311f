package conflict_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-dev/holdfast/conflict"
	"github.com/holdfast-dev/holdfast/httpcond"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/mem"
)

// A handler that saves what a client has edited, under the condition that it is
// still what the client saw.
func ExamplePolicy_Handler() {
	s := store.New(mem.New(), store.Options{})
	defer s.Close()
	policy := conflict.New("notes.save", conflict.Options{})
	save := policy.Handler(func(w http.ResponseWriter, r *http.Request) error {
		p, err := httpcond.Parse(r)
		if err != nil {
			return err
		}
		current, err := httpcond.Of(s.Get(r.Context(), "note"))
		if err != nil {
			return err
		}
		cond, err := p.Require().ForWrite(current)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		v, err := s.Put(r.Context(), "note", body, cond)
		if err != nil {
			return err
		}
		w.Header().Set("ETag", httpcond.FromVersion(v).String())
		return nil
	})
	put := func(name, value string) *http.Response {
		r := httptest.NewRequest("PUT", "/note", strings.NewReader("text"))
		r.Header.Set(name, value)
		w := httptest.NewRecorder()
		save.ServeHTTP(w, r)
		return w.Result()
	}
	created := put("If-None-Match", "*")
	tag := created.Header.Get("ETag")
	fmt.Println(created.StatusCode, put("If-Match", tag).StatusCode, put("If-Match", tag).StatusCode, put("Accept", "*/*").StatusCode)
	// Output: 200 200 412 428
}
