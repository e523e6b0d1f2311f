// Package knowledge says which library functions do what.
//
// # Model
//
// Most of it is data: each function of a library is written as a small effect
// program in the text form of review/effect (files *.effect), with the names of
// its parameters as variables. `os.WriteFile` is
//
//	func "os.WriteFile"(name, data, perm) {
//	  write truncate file:"*"[path = name]
//	  write fill file:"*"[path = name] set(* = data)
//	}
//
// A parameter that is a struct is read by Go field names (`in.Bucket`); where the
// call does not set the field, the condition or value that mentions it is left
// out. A name that ends in `?Field` is a variant for calls that do set it; a name
// `path#Method` is the method of any type of that package. Version suffixes of
// import paths are left out, so one entry serves redis v8 and v9.
//
// What can not be said so (a query builder, an open file) is code in the front
// end; the types and names that code starts from are here too.
//
// # Promise and limits
//
// Adding a library is adding lines here. A function that is not known has no
// effect, and its result derives from its arguments.
package knowledge

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/review/effect"
)

//go:embed *.effect
var files embed.FS

// funcs is parsed once, at the first look.
var funcs = sync.OnceValues(func() (map[string]*effect.Func, error) {
	names, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	out := map[string]*effect.Func{}
	for _, n := range names {
		text, err := files.ReadFile(n.Name())
		if err != nil {
			return nil, err
		}
		p, err := effect.Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name(), err)
		}
		for id, f := range p.Funcs {
			if out[id] != nil {
				return nil, fmt.Errorf("%s: %s is there twice", n.Name(), id)
			}
			out[id] = f
		}
	}
	return out, nil
})

var version = regexp.MustCompile(`/v[0-9]+([./#]|$)|\.v[0-9]+([./#]|$)`)

// Plain takes version suffixes out of the import path in a name.
func Plain(id string) string {
	if !strings.Contains(id, "/v") && !strings.Contains(id, ".v") {
		return id
	}
	return version.ReplaceAllString(id, "$1$2")
}

// Lookup finds what is known of a function: the exact name, or the method by
// name in its package. has tells which struct fields the call sets. It returns
// nil for what is not known.
func Lookup(id string, has func(field string) bool) *effect.Func {
	known, err := funcs()
	if err != nil {
		panic(err) // the files are part of the program and held by a test
	}
	id = Plain(id)
	for _, name := range []string{id, byPackage(id)} {
		for _, v := range variants[name] {
			if f := known[name+"?"+v]; f != nil && has(v) {
				return f
			}
		}
		if f := known[name]; f != nil {
			return f
		}
	}
	return nil
}

// byPackage turns path.Type.Method and path.(*Type).Method into path#Method.
func byPackage(id string) string {
	slash := strings.LastIndexByte(id, '/') + 1
	first := strings.IndexByte(id[slash:], '.')
	last := strings.LastIndexByte(id, '.')
	if first < 0 || last == slash+first {
		return ""
	}
	return id[:slash+first] + "#" + id[last+1:]
}

// variants are the fields that change what a function does, in the order in
// which they are asked for.
var variants = map[string][]string{
	"github.com/aws/aws-sdk-go/service/s3#PutObject":            {"IfNoneMatch", "IfMatch"},
	"github.com/aws/aws-sdk-go-v2/service/s3#PutObject":         {"IfNoneMatch", "IfMatch"},
	"github.com/aws/aws-sdk-go-v2/service/s3#DeleteObject":      {"IfMatch"},
	"github.com/aws/aws-sdk-go/service/s3#PutObjectWithContext": {"IfNoneMatch", "IfMatch"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb#PutItem":     {"ConditionExpression"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb#UpdateItem":  {"ConditionExpression"},
	"github.com/aws/aws-sdk-go-v2/service/dynamodb#DeleteItem":  {"ConditionExpression"},
}

// Effectful says whether a function or method of a package may have an effect;
// it is a quick look before Lookup, and errs on the side of yes.
func Effectful(pkg, name string) bool {
	pkg = Plain(pkg)
	if only, ok := sparse[pkg]; ok {
		return only[name]
	}
	for _, p := range libraries {
		if pkg == p || strings.HasPrefix(pkg, p+"/") {
			return true
		}
	}
	return false
}

func names(list ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range list {
		out[n] = true
	}
	return out
}

// sparse are packages of which only some functions have effects.
var sparse = map[string]map[string]bool{
	"os": names("WriteFile", "ReadFile", "Create", "OpenFile", "Open", "CreateTemp", "MkdirTemp", "Rename", "Remove", "RemoveAll", "Link", "Symlink", "Truncate",
		"Stat", "Lstat", "Mkdir", "ReadDir", "Write", "WriteString", "Sync", "Close"),
	"io/ioutil":                  names("WriteFile", "ReadFile", "TempFile", "TempDir"),
	"sync":                       names("Lock", "Unlock", "RLock", "RUnlock", "TryLock", "Go", "Load", "Store", "LoadOrStore", "Delete", "LoadAndDelete"),
	"net/http":                   names("Get", "Post", "PostForm", "Head", "Do"),
	"net/smtp":                   names("SendMail"),
	"syscall":                    names("Flock"),
	"golang.org/x/sys/unix":      names("Flock"),
	"golang.org/x/sync/errgroup": names("Go", "Wait"),
}

// libraries are packages (with what is below them) that talk to something
// outside, or keep locks.
var libraries = []string{
	"database/sql", "sync/atomic", "golang.org/x/sync/singleflight",
	"github.com/jackc/pgx", "github.com/jackc/pgxpool", "github.com/jmoiron/sqlx", "github.com/uptrace/bun", "gorm.io/gorm", "github.com/jinzhu/gorm",
	"xorm.io/xorm", "github.com/go-xorm/xorm", "github.com/Masterminds/squirrel", "entgo.io/ent",
	"github.com/redis/go-redis", "github.com/go-redis/redis", "github.com/gomodule/redigo", "github.com/bsm/redislock", "github.com/go-redsync/redsync",
	"github.com/aws/aws-sdk-go-v2/service", "github.com/aws/aws-sdk-go-v2/feature", "github.com/aws/aws-sdk-go/service", "cloud.google.com/go/storage", "cloud.google.com/go/pubsub",
	"cloud.google.com/go/firestore", "github.com/Azure/azure-sdk-for-go/sdk/storage", "github.com/minio/minio-go", "gocloud.dev/blob",
	"go.etcd.io/etcd/client", "go.etcd.io/bbolt", "go.mongodb.org/mongo-driver", "k8s.io/client-go", "sigs.k8s.io/controller-runtime",
	"github.com/google/renameio", "github.com/natefinch/atomic", "github.com/dchest/safefile", "github.com/gofrs/flock", "github.com/rogpeppe/go-internal/lockedfile",
	"github.com/segmentio/kafka-go", "github.com/IBM/sarama", "github.com/Shopify/sarama", "github.com/nats-io/nats.go", "github.com/rabbitmq/amqp091-go", "github.com/ThreeDotsLabs/watermill",
	"github.com/hibiken/asynq", "github.com/stripe/stripe-go", "github.com/holdfast-dev/holdfast/atomicfile",
}

// Known are the names of all functions, for tests and documentation.
func Known() ([]string, error) {
	known, err := funcs()
	out := make([]string, 0, len(known))
	for id := range known {
		out = append(out, id)
	}
	return out, err
}
