// Package racy saves a whole row that it read long before.
package racy

import (
	"net/http"

	"gorm.io/gorm"
)

type User struct {
	ID       uint
	Balance  int
	Password string
}

type Store struct{ db *gorm.DB }

func (s *Store) get(id string) (*User, error) {
	var u User
	if err := s.db.First(&u, "id = ?", id).Error; err != nil {
		return nil, err
	}
	return &u, nil
}

type Server struct{ store *Store }

func hash(s string) string { return s }

func (s *Server) password(w http.ResponseWriter, r *http.Request) {
	u, err := s.store.get(r.FormValue("user"))
	if err != nil {
		http.Error(w, "no", 404)
		return
	}
	u.Password = hash(r.FormValue("password"))
	if err := s.store.db.Save(u).Error; err != nil {
		http.Error(w, "no", 500)
	}
}

func (s *Server) redeem(w http.ResponseWriter, r *http.Request) {
	err := s.store.db.Model(&User{}).Where("id = ?", r.FormValue("user")).Update("balance", gorm.Expr("balance + ?", 5)).Error
	if err != nil {
		http.Error(w, "no", 500)
	}
}

func (s *Server) Routes(m *http.ServeMux) {
	m.HandleFunc("PUT /user/password", s.password)
	m.HandleFunc("POST /redeem", s.redeem)
}
