// Package right writes the column that it means.
package right

import (
	"net/http"

	"gorm.io/gorm"
)

type User struct {
	ID       uint
	Balance  int
	Password string
}

type Server struct{ db *gorm.DB }

func hash(s string) string { return s }

func (s *Server) password(w http.ResponseWriter, r *http.Request) {
	var u User
	if err := s.db.First(&u, "id = ?", r.FormValue("user")).Error; err != nil {
		http.Error(w, "no", 404)
		return
	}
	if err := s.db.Model(&u).Update("password", hash(r.FormValue("password"))).Error; err != nil {
		http.Error(w, "no", 500)
	}
}

func (s *Server) redeem(w http.ResponseWriter, r *http.Request) {
	err := s.db.Model(&User{}).Where("id = ?", r.FormValue("user")).Update("balance", gorm.Expr("balance + ?", 5)).Error
	if err != nil {
		http.Error(w, "no", 500)
	}
}

func (s *Server) Routes(m *http.ServeMux) {
	m.HandleFunc("PUT /user/password", s.password)
	m.HandleFunc("POST /redeem", s.redeem)
}
