package awsclient_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/errand-dev/errand/shared/awsclient"
)

func TestAnEndpointReachesEveryClient(t *testing.T) {
	const local = "http://127.0.0.1:4566"
	for name, c := range map[string]struct {
		config      awsclient.Config
		environment string
		want        string
	}{
		"AWS":                  {config: awsclient.Config{Region: "eu-west-1"}},
		"from the config":      {config: awsclient.Config{Endpoint: local}, want: local},
		"from the environment": {config: awsclient.Config{Region: "eu-west-1"}, environment: local, want: local},
	} {
		t.Setenv("AWS_ENDPOINT_URL", c.environment)
		clients, err := awsclient.New(t.Context(), c.config)
		if err != nil {
			t.Fatal(err)
		}
		s3 := clients.S3.Options()
		for service, got := range map[string]*string{
			"DynamoDB": clients.DynamoDB.Options().BaseEndpoint, "SQS": clients.SQS.Options().BaseEndpoint,
			"Scheduler": clients.Scheduler.Options().BaseEndpoint, "S3": s3.BaseEndpoint,
		} {
			if aws.ToString(got) != c.want || (got == nil) != (c.want == "") {
				t.Errorf("%s: %s has endpoint %q, want %q", name, service, aws.ToString(got), c.want)
			}
		}
		if s3.UsePathStyle != (c.want != "") || s3.Region == "" {
			t.Errorf("%s: path style %v, region %q", name, s3.UsePathStyle, s3.Region)
		}
	}
}

func TestEveryAttemptIsBounded(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", "")
	clients, err := awsclient.New(t.Context(), awsclient.Config{Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	for service, client := range map[string]any{
		"DynamoDB": clients.DynamoDB.Options().HTTPClient, "SQS": clients.SQS.Options().HTTPClient,
		"Scheduler": clients.Scheduler.Options().HTTPClient, "S3": clients.S3.Options().HTTPClient,
	} {
		bounded, ok := client.(interface{ GetTimeout() time.Duration })
		if !ok || bounded.GetTimeout() < 5*time.Second || bounded.GetTimeout() > time.Minute {
			t.Errorf("%s has no time-out that fits: %T", service, client)
		}
	}
	if sqs, ok := clients.SQS.Options().HTTPClient.(interface{ GetTimeout() time.Duration }); ok && sqs.GetTimeout() <= 20*time.Second {
		t.Errorf("SQS breaks off a long poll of 20 s after %v", sqs.GetTimeout())
	}
}
