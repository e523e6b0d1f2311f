// Package right locks with the option that GORM v1 does read.
package right

import (
	"net/http"

	"github.com/jinzhu/gorm"
)

type File struct {
	ID   uint
	Size int
}

var db *gorm.DB

func resize(w http.ResponseWriter, r *http.Request) {
	tx := db.Begin()
	defer tx.Rollback()
	var f File
	if err := tx.Set("gorm:query_option", "FOR UPDATE").Where("id = ?", r.FormValue("id")).First(&f).Error; err != nil {
		http.Error(w, "no", 404)
		return
	}
	f.Size = f.Size + 1
	if err := tx.Save(&f).Error; err != nil {
		http.Error(w, "no", 500)
		return
	}
	tx.Commit()
}

func Routes() { http.HandleFunc("/resize", resize) }
