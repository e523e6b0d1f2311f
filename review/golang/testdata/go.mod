module example.com/cases

go 1.26

require (
	github.com/jackc/pgx/v5 v5.0.0
	github.com/jinzhu/gorm v1.0.0
	gorm.io/gorm v1.0.0
)
