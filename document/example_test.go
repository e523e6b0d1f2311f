package document_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/document"
	"github.com/holdfast-dev/holdfast/store"
)

// A person edits the file while the program holds an older reading: the save
// is refused.
func ExampleJSONFile() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	type settings struct {
		Theme string `json:"theme"`
	}
	c, err := document.JSONFile[settings](dir, document.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Create(ctx, "ann", settings{Theme: "dark"}); err != nil {
		fmt.Println(err)
		return
	}
	value, etag, err := c.Load(ctx, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	byHand := []byte(`{"theme": "light"}`)
	if err := os.WriteFile(filepath.Join(dir, "ann.json"), byHand, 0o600); err != nil {
		fmt.Println(err)
		return
	}
	value.Theme = "blue"
	_, err = c.Save(ctx, "ann", value, etag)
	fmt.Println("refused:", errors.Is(err, store.ErrConflict))
	// Output: refused: true
}
