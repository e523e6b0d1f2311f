// Package racy writes files in the ways that lose them.
package racy

import (
	"encoding/json"
	"os"
	"path/filepath"
)

type Config struct {
	Tools []string `json:"tools"`
}

// Add forgets the read error and writes in place.
func Add(path, tool string) error {
	old, _ := os.ReadFile(path)
	var c Config
	json.Unmarshal(old, &c)
	c.Tools = append(c.Tools, tool)
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// Store uses one temporary name for everybody and does not sync.
func Store(dir string, c Config) error {
	tmp := filepath.Join(dir, "config.json.tmp")
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(f).Encode(c); err != nil {
		return err
	}
	f.Close()
	return os.Rename(tmp, filepath.Join(dir, "config.json"))
}
