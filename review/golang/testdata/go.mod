module example.com/cases

go 1.26

require (
	cloud.google.com/go/storage v1.0.0
	github.com/aws/aws-sdk-go-v2/service/s3 v1.0.0
	github.com/gin-gonic/gin v1.0.0
	github.com/jackc/pgx/v5 v5.0.0
	github.com/jinzhu/gorm v1.0.0
	github.com/redis/go-redis/v9 v9.0.0
	github.com/robfig/cron/v3 v3.0.0
	github.com/segmentio/kafka-go v1.0.0
	github.com/uptrace/bun v1.0.0
	gorm.io/gorm v1.0.0
	k8s.io/client-go v1.0.0
	sigs.k8s.io/controller-runtime v1.0.0
	xorm.io/xorm v1.0.0
)
