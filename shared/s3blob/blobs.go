// Package s3blob implements platform.Blobs on an S3 bucket: one object per blob,
// under a common prefix. S3 checks each upload against a SHA-256 that is computed
// here and stores it; a download is checked against it again.
//
// A missing object is reported as such only to a caller that may list the bucket
// (s3:ListBucket); without that permission S3 answers 403.
package s3blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/errand-dev/errand/shared/platform"
)

// api is what the store calls of *s3.Client.
type api interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// Blobs are the objects of one bucket under one prefix. They are safe for
// concurrent use.
type Blobs struct {
	client         api
	bucket, prefix string
}

var _ platform.Blobs = (*Blobs)(nil)

// New returns the blobs of a bucket that exists; prefix, if any, usually ends in a
// slash. New calls nothing.
func New(client api, bucket, prefix string) *Blobs {
	return &Blobs{client: client, bucket: bucket, prefix: prefix}
}

// PutBlob implements platform.Blobs.
func (b *Blobs) PutBlob(ctx context.Context, name string, data []byte) error {
	sum := sha256.Sum256(data)
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket:         &b.bucket,
		Key:            b.key(name),
		Body:           bytes.NewReader(data),
		ChecksumSHA256: ptr(base64.StdEncoding.EncodeToString(sum[:])),
	})
	if err != nil {
		return fmt.Errorf("putting blob %s: %w", name, err)
	}
	return nil
}

// GetBlob implements platform.Blobs. Data that does not match its checksum is an error.
func (b *Blobs) GetBlob(ctx context.Context, name string) ([]byte, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &b.bucket, Key: b.key(name), ChecksumMode: types.ChecksumModeEnabled,
	})
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return nil, fmt.Errorf("getting blob %s: %w", name, platform.ErrNoBlob)
	}
	if err != nil {
		return nil, fmt.Errorf("getting blob %s: %w", name, err)
	}
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", name, err)
	}
	return data, nil
}

// DeleteBlob implements platform.Blobs.
func (b *Blobs) DeleteBlob(ctx context.Context, name string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: b.key(name)})
	if err != nil {
		return fmt.Errorf("deleting blob %s: %w", name, err)
	}
	return nil
}

// CreateBucket creates the bucket on a local endpoint. On AWS the deployed template
// owns it, so a client without an endpoint override is refused.
func CreateBucket(ctx context.Context, client *s3.Client, bucket string) error {
	if client.Options().BaseEndpoint == nil {
		return fmt.Errorf("creating bucket %s: only on a local endpoint; on AWS deploy the stack", bucket)
	}
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		return fmt.Errorf("creating bucket %s: %w", bucket, err)
	}
	return nil
}

func (b *Blobs) key(name string) *string { return ptr(b.prefix + name) }

func ptr[T any](v T) *T { return &v }
