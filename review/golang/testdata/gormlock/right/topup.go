// Package right locks the row with the clause that GORM v2 sends.
package right

import (
	"errors"
	"net/http"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

type Redemption struct {
	ID     int
	Key    string
	Status int
	Quota  int
}

type User struct {
	ID    int
	Quota int
}

var DB *gorm.DB

func redeem(key string, userID int) (quota int, err error) {
	var redemption Redemption
	err = DB.Transaction(func(tx *gorm.DB) error {
		err := tx.Clauses(clause.Locking{Strength: "UPDATE"}).Where("key = ?", key).First(&redemption).Error
		if err != nil {
			return errors.New("no such code")
		}
		if redemption.Status != 1 {
			return errors.New("used")
		}
		if err = tx.Model(&User{}).Where("id = ?", userID).Update("quota", gorm.Expr("quota + ?", redemption.Quota)).Error; err != nil {
			return err
		}
		redemption.Status = 3
		return tx.Save(&redemption).Error
	})
	return redemption.Quota, err
}

func handle(w http.ResponseWriter, r *http.Request) {
	if _, err := redeem(r.FormValue("key"), 1); err != nil {
		http.Error(w, "failed", 500)
		return
	}
}

func Routes() { http.HandleFunc("/api/user/topup", handle) }
