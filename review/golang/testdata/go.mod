module example.com/cases

go 1.26

require github.com/jackc/pgx/v5 v5.0.0
