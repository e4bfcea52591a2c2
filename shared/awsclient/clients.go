// Package awsclient builds the AWS SDK clients of Errand in one place, with one
// configuration, and counts what they do (Meter). It adds no retries of its own:
// the SDK's retries stay on, so every write that passes here may arrive twice.
package awsclient

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Config says which AWS to talk to. The zero value is the AWS of the
// environment: its region, its credentials.
type Config struct {
	// Endpoint, when set, is the base URL of an AWS-compatible server. It is
	// given the credentials "test" and, if Region is empty, us-east-1.
	Endpoint string
	Region   string
	// HTTPClient replaces the SDK's own.
	HTTPClient HTTPClient
	// Meter, when set, counts every billed operation of the clients.
	Meter *Meter
}

// HTTPClient sends one HTTP request, as *http.Client does.
type HTTPClient interface {
	Do(*http.Request) (*http.Response, error)
}

// Clients are the services that Errand uses. They share one configuration and
// are safe for concurrent use.
type Clients struct {
	DynamoDB  *dynamodb.Client
	SQS       *sqs.Client
	Scheduler *scheduler.Client
	S3        *s3.Client
}

// How long one attempt may take, its answer's body included; then the SDK tries again.
// Without it a connection that died while its Lambda was frozen hangs for minutes, and
// the lease of whoever waits runs out.
const (
	// quick is for calls that take milliseconds.
	quick = 5 * time.Second
	// polling leaves room for a long poll of 20 s.
	polling = 30 * time.Second
	// carrying leaves room for a blob of 16 MB.
	carrying = time.Minute
)

// New builds the clients. It reads the environment and the shared AWS files,
// and calls no service.
func New(ctx context.Context, cfg Config) (*Clients, error) {
	loaded, err := load(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	return &Clients{
		DynamoDB:  dynamodb.NewFromConfig(within(loaded, quick)),
		SQS:       sqs.NewFromConfig(within(loaded, polling)),
		Scheduler: scheduler.NewFromConfig(within(loaded, quick)),
		S3: s3.NewFromConfig(within(loaded, carrying), func(o *s3.Options) {
			// A bucket's own host name resolves only on AWS.
			o.UsePathStyle = o.BaseEndpoint != nil
		}),
	}, nil
}

// within bounds each attempt, unless the HTTP client is the caller's own.
func within(cfg aws.Config, limit time.Duration) aws.Config {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = awshttp.NewBuildableClient()
	}
	if client, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		cfg.HTTPClient = client.WithTimeout(limit)
	}
	return cfg
}

func load(ctx context.Context, cfg Config) (aws.Config, error) {
	var options []func(*config.LoadOptions) error
	region := cfg.Region
	if cfg.Endpoint != "" {
		if region == "" {
			region = "us-east-1"
		}
		options = append(options,
			config.WithBaseEndpoint(cfg.Endpoint),
			config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("test", "test", "")))
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	if cfg.Meter != nil {
		options = append(options, config.WithAPIOptions(cfg.Meter.middleware()))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err == nil && cfg.HTTPClient != nil {
		// Given as an option it would be refused where AWS_CA_BUNDLE is set.
		loaded.HTTPClient = cfg.HTTPClient
	}
	return loaded, err
}
