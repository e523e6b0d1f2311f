// Package right stores each item under its own key, and changes the shared object
// only in the version that it read.
package right

import (
	"bytes"
	"context"
	"io"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/gin-gonic/gin"
)

type Store struct {
	c *s3.Client
	g *storage.Client
}

var bucket, star, shared = "b", "*", "head.json"

func (s *Store) add(c *gin.Context) {
	ctx := context.Background()
	id := "items/" + c.Param("id")
	in := &s3.PutObjectInput{Bucket: &bucket, Key: &id, IfNoneMatch: &star, Body: bytes.NewReader([]byte(c.Param("value")))}
	if _, err := s.c.PutObject(ctx, in); err != nil {
		c.JSON(409, gin.H{"error": err})
		return
	}
	c.JSON(200, gin.H{})
}

func (s *Store) head(c *gin.Context) {
	ctx := context.Background()
	out, err := s.c.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &shared})
	if err != nil {
		c.JSON(500, gin.H{"error": err})
		return
	}
	old, err := io.ReadAll(out.Body)
	if err != nil {
		c.JSON(500, gin.H{"error": err})
		return
	}
	b := append(old, c.Param("value")...)
	if _, err := s.c.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &shared, Body: bytes.NewReader(b), IfMatch: out.ETag}); err != nil {
		c.JSON(412, gin.H{"error": err})
		return
	}
	c.JSON(200, gin.H{})
}

func (s *Store) copy(c *gin.Context) {
	ctx := context.Background()
	o := s.g.Bucket("b").Object("copy.json")
	attrs, err := o.Attrs(ctx)
	if err != nil {
		c.JSON(500, gin.H{"error": err})
		return
	}
	w := o.If(storage.Conditions{GenerationMatch: attrs.Generation}).NewWriter(ctx)
	if _, err := w.Write([]byte(c.Param("value"))); err != nil {
		c.JSON(500, gin.H{"error": err})
		return
	}
	if err := w.Close(); err != nil {
		c.JSON(412, gin.H{"error": err})
		return
	}
	c.JSON(200, gin.H{})
}

func Routes(e *gin.Engine, s *Store) {
	e.POST("/items/:id", s.add)
	e.POST("/head", s.head)
	e.POST("/copy", s.copy)
}
