// Package awssign signs HTTP requests to an API Gateway whose authorizer is IAM (AWS
// Signature Version 4), with the credentials and the region that the AWS SDK finds: the
// environment, a profile, single sign-on, a role.
package awssign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
)

// service is what the signature is for.
const service = "execute-api"

// Transport is an http.RoundTripper that signs each request before it hands it on.
type Transport struct {
	base        http.RoundTripper
	signer      *v4.Signer
	credentials aws.CredentialsProvider
	region      string
	now         func() time.Time
}

// New returns a transport for the API at endpoint over base. It looks for credentials at
// once, so that their absence is told before the first request. now is the clock.
func New(ctx context.Context, endpoint string, base http.RoundTripper, now func() time.Time) (*Transport, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	region := regionOf(endpoint)
	if region == "" {
		region = cfg.Region
	}
	if region == "" {
		return nil, errors.New("the region is unknown; set AWS_REGION")
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, fmt.Errorf("finding AWS credentials: %w", err)
	}
	return &Transport{base: base, signer: v4.NewSigner(), credentials: cfg.Credentials, region: region, now: now}, nil
}

// regionOf reads the region from the host of an API without a domain of its own:
// ID.execute-api.REGION.amazonaws.com.
func regionOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	labels := strings.Split(u.Hostname(), ".")
	if len(labels) < 5 || labels[1] != service || labels[3] != "amazonaws" {
		return ""
	}
	return labels[2]
}

// RoundTrip implements http.RoundTripper. It reads the whole body: its hash is signed.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	credentials, err := t.credentials.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("finding AWS credentials: %w", err)
	}
	var body []byte
	if r.Body != nil {
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("reading the request's body: %w", err)
		}
	}
	signed := r.Clone(r.Context())
	if r.Body != nil {
		signed.Body = io.NopCloser(bytes.NewReader(body))
	}
	hash := sha256.Sum256(body)
	if err := t.signer.SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(hash[:]), service, t.region, t.now()); err != nil {
		return nil, fmt.Errorf("signing the request: %w", err)
	}
	return t.base.RoundTrip(signed)
}
