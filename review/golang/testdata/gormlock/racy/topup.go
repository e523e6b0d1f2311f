// Package racy asks for a row lock with an option that GORM v2 does not read.
package racy

import (
	"errors"
	"net/http"

	"gorm.io/gorm"
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

func Redeem(key string, userID int) (quota int, err error) {
	redemption := &Redemption{}
	err = DB.Transaction(func(tx *gorm.DB) error {
		err := tx.Set("gorm:query_option", "FOR UPDATE").Where("key = ?", key).First(redemption).Error
		if err != nil {
			return errors.New("no such code")
		}
		if redemption.Status != 1 {
			return errors.New("used")
		}
		err = tx.Model(&User{}).Where("id = ?", userID).Update("quota", gorm.Expr("quota + ?", redemption.Quota)).Error
		if err != nil {
			return err
		}
		redemption.Status = 3
		return tx.Save(redemption).Error
	})
	if err != nil {
		return 0, err
	}
	return redemption.Quota, nil
}

func handle(w http.ResponseWriter, r *http.Request) {
	if _, err := Redeem(r.FormValue("key"), 1); err != nil {
		http.Error(w, "failed", 500)
		return
	}
}

func Routes() { http.HandleFunc("/api/user/topup", handle) }
