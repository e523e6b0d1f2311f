// Package racy keeps an index in one object.
package racy

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/gin-gonic/gin"
)

type Index struct {
	Items map[string]string `json:"items"`
}

type Store struct{ c *s3.Client }

var bucket, key = "b", "index.json"

func (s *Store) load(ctx context.Context) (*Index, error) {
	out, err := s.c.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	var idx Index
	if err := json.NewDecoder(out.Body).Decode(&idx); err != nil {
		return nil, err
	}
	return &idx, nil
}

func (s *Store) add(c *gin.Context) {
	ctx := context.Background()
	idx, err := s.load(ctx)
	if err != nil {
		c.JSON(500, gin.H{"error": err})
		return
	}
	idx.Items[c.Param("id")] = c.Param("value")
	b, err := json.Marshal(idx)
	if err != nil {
		c.JSON(500, gin.H{"error": err})
		return
	}
	if _, err := s.c.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(b)}); err != nil {
		c.JSON(500, gin.H{"error": err})
		return
	}
	c.JSON(200, gin.H{})
}

func Routes(e *gin.Engine, s *Store) { e.POST("/items/:id", s.add) }
