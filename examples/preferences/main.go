// Command preferences is a small HTTP service that keeps one JSON document in a
// file. STORE chooses how it is changed; all ways but one have a defect that
// ordinary tests do not show. See README.md.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
)

// preferences is the document: values by name.
type preferences map[string]string

func main() {
	dir := os.Getenv("DATA")
	s, err := newStore(os.Getenv("STORE"), filepath.Join(dir, "preferences.json"))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("PUT /preferences/{name}", func(w http.ResponseWriter, r *http.Request) {
		var value string
		if err := json.NewDecoder(r.Body).Decode(&value); err != nil {
			http.Error(w, "the body must be a JSON text", http.StatusBadRequest)
			return
		}
		err := s.change(func(p preferences) { p[r.PathValue("name")] = value })
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "saved")
	})
	mux.HandleFunc("GET /preferences", func(w http.ResponseWriter, _ *http.Request) {
		p, err := s.read()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		json.NewEncoder(w).Encode(p)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}
