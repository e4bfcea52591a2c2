package s3blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/s3blob"
)

// fakeS3 keeps objects by bucket and key. That checksums are checked is tested
// against a server, in localstack/adapters.
type fakeS3 struct {
	objects map[string][]byte
	err     error
}

func (f *fakeS3) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if aws.ToString(in.ChecksumSHA256) == "" {
		return nil, errors.New("no checksum")
	}
	data, err := io.ReadAll(in.Body)
	f.objects[*in.Bucket+" "+*in.Key] = data
	return &s3.PutObjectOutput{}, errors.Join(err, f.err)
}

func (f *fakeS3) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	data, ok := f.objects[*in.Bucket+" "+*in.Key]
	switch {
	case f.err != nil:
		return nil, f.err
	case !ok:
		return nil, &types.NoSuchKey{}
	}
	return &s3.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(data))}, nil
}

func (f *fakeS3) DeleteObject(_ context.Context, in *s3.DeleteObjectInput, _ ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	delete(f.objects, *in.Bucket+" "+*in.Key)
	return &s3.DeleteObjectOutput{}, f.err
}

func TestABlobIsAnObjectUnderThePrefix(t *testing.T) {
	t.Parallel()
	fake := &fakeS3{objects: make(map[string][]byte)}
	blobs := s3blob.New(fake, "bucket", "blobs/")
	if err := blobs.PutBlob(t.Context(), "a", []byte("data")); err != nil {
		t.Fatal(err)
	}
	if got := fake.objects["bucket blobs/a"]; string(got) != "data" {
		t.Errorf("objects: %q", fake.objects)
	}
	if got, err := blobs.GetBlob(t.Context(), "a"); string(got) != "data" || err != nil {
		t.Errorf("got %q (%v)", got, err)
	}
	if err := blobs.DeleteBlob(t.Context(), "a"); err != nil || len(fake.objects) != 0 {
		t.Errorf("deleting: %v, %d objects left", err, len(fake.objects))
	}
}

func TestOnlyAMissingObjectIsNoBlob(t *testing.T) {
	t.Parallel()
	fake := &fakeS3{}
	blobs := s3blob.New(fake, "bucket", "")
	if _, err := blobs.GetBlob(t.Context(), "a"); !errors.Is(err, platform.ErrNoBlob) {
		t.Errorf("a missing object: %v", err)
	}
	fake.err = errors.New("access denied")
	if _, err := blobs.GetBlob(t.Context(), "a"); errors.Is(err, platform.ErrNoBlob) || !errors.Is(err, fake.err) {
		t.Errorf("another error: %v", err)
	}
}

func TestCreateBucketIsRefusedOnAWS(t *testing.T) {
	t.Parallel()
	client := s3.New(s3.Options{Region: "us-east-1", Credentials: aws.AnonymousCredentials{}})
	if err := s3blob.CreateBucket(t.Context(), client, "b"); err == nil || !strings.Contains(err.Error(), "local endpoint") {
		t.Errorf("got %v", err)
	}
}
