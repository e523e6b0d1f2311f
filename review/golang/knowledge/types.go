package knowledge

// Handle says what a type is to a database: "outer" (a pool or client: each
// statement stands alone), "tx" (a transaction), "any" (either: an interface that
// both satisfy); empty for other types.
func Handle(typeName string) string { return handles[Plain(typeName)] }

var handles = map[string]string{
	"database/sql.DB":                       "outer",
	"database/sql.Conn":                     "outer",
	"database/sql.Tx":                       "tx",
	"github.com/jackc/pgx.Conn":             "outer",
	"github.com/jackc/pgx/pgxpool.Pool":     "outer",
	"github.com/jackc/pgx/pgxpool.Conn":     "outer",
	"github.com/jackc/pgx/pgxpool.Tx":       "tx",
	"github.com/jackc/pgx.Tx":               "tx",
	"github.com/jackc/pgx.ConnPool":         "outer",
	"github.com/jackc/pgxpool.Pool":         "outer",
	"github.com/jmoiron/sqlx.DB":            "outer",
	"github.com/jmoiron/sqlx.Conn":          "outer",
	"github.com/jmoiron/sqlx.Tx":            "tx",
	"github.com/jmoiron/sqlx.Ext":           "any",
	"github.com/jmoiron/sqlx.ExtContext":    "any",
	"github.com/jmoiron/sqlx.Execer":        "any",
	"github.com/jmoiron/sqlx.ExecerContext": "any",
	"github.com/uptrace/bun.DB":             "outer",
	"github.com/uptrace/bun.Conn":           "outer",
	"github.com/uptrace/bun.Tx":             "tx",
	"github.com/uptrace/bun.IDB":            "any",
	"github.com/uptrace/bun.IConn":          "any",
	"gorm.io/gorm.DB":                       "any",
	"github.com/jinzhu/gorm.DB":             "any",
	"xorm.io/xorm.Engine":                   "outer",
	"xorm.io/xorm.EngineGroup":              "outer",
	"xorm.io/xorm.Session":                  "any",
	"xorm.io/xorm.Interface":                "any",
	"github.com/go-xorm/xorm.Engine":        "outer",
	"github.com/go-xorm/xorm.Session":       "any",
}

// Gorm is the generation of GORM a type belongs to: 1, 2, or 0.
func Gorm(typeName string) int {
	switch typeName {
	case "gorm.io/gorm.DB":
		return 2
	case "github.com/jinzhu/gorm.DB":
		return 1
	}
	return 0
}

// Xorm says whether a type is a session or engine of xorm.
func Xorm(typeName string) bool {
	switch Plain(typeName) {
	case "xorm.io/xorm.Engine", "xorm.io/xorm.EngineGroup", "xorm.io/xorm.Session", "xorm.io/xorm.Interface", "github.com/go-xorm/xorm.Engine", "github.com/go-xorm/xorm.Session":
		return true
	}
	return false
}

// ErrorClass is what a library's error variable or test function stands for:
// "notfound", "exists", "conflict"; empty for others.
func ErrorClass(name string) string { return errorClasses[Plain(name)] }

var errorClasses = map[string]string{
	"database/sql.ErrNoRows":                                "notfound",
	"github.com/jackc/pgx.ErrNoRows":                        "notfound",
	"gorm.io/gorm.ErrRecordNotFound":                        "notfound",
	"gorm.io/gorm.ErrDuplicatedKey":                         "exists",
	"github.com/jinzhu/gorm.ErrRecordNotFound":              "notfound",
	"github.com/jinzhu/gorm.IsRecordNotFoundError":          "notfound",
	"github.com/redis/go-redis.Nil":                         "notfound",
	"github.com/go-redis/redis.Nil":                         "notfound",
	"github.com/redis/go-redis.TxFailedErr":                 "conflict",
	"github.com/go-redis/redis.TxFailedErr":                 "conflict",
	"github.com/gomodule/redigo/redis.ErrNil":               "notfound",
	"os.ErrNotExist":                                        "notfound",
	"io/fs.ErrNotExist":                                     "notfound",
	"os.ErrExist":                                           "exists",
	"io/fs.ErrExist":                                        "exists",
	"os.IsNotExist":                                         "notfound",
	"os.IsExist":                                            "exists",
	"k8s.io/apimachinery/pkg/api/errors.IsNotFound":         "notfound",
	"k8s.io/apimachinery/pkg/api/errors.IsConflict":         "conflict",
	"k8s.io/apimachinery/pkg/api/errors.IsAlreadyExists":    "exists",
	"cloud.google.com/go/storage.ErrObjectNotExist":         "notfound",
	"go.mongodb.org/mongo-driver/mongo.ErrNoDocuments":      "notfound",
	"go.mongodb.org/mongo-driver/mongo.IsDuplicateKeyError": "exists",
}

// Void are query options that a library takes and ignores: type and option name,
// and why.
func Void(typeName, option string) string {
	if Gorm(typeName) == 2 && option == "gorm:query_option" {
		return "GORM v2 ignores the v1 option gorm:query_option: no FOR UPDATE is sent; use Clauses(clause.Locking{Strength: \"UPDATE\"})"
	}
	return ""
}

// quiet are packages whose functions have no effect that matters and are never
// looked into.
var quiet = map[string]bool{
	"fmt": true, "strings": true, "strconv": true, "bytes": true, "errors": true, "sort": true, "slices": true, "maps": true, "math": true,
	"time": true, "unicode": true, "regexp": true, "reflect": true, "log": true, "log/slog": true, "context": true, "net/url": true,
	"encoding/base64": true, "encoding/hex": true, "crypto/sha256": true, "crypto/md5": true, "crypto/sha1": true, "crypto/hmac": true,
	"path": true, "path/filepath": true, "testing": true, "flag": true, "runtime": true, "unsafe": true, "math/rand": true,
}

// Quiet says whether a package's functions can have no effect of interest.
func Quiet(pkg string) bool { return quiet[pkg] }
