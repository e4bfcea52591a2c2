package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/errand-dev/errand/shared/dynamostore"
)

// blobPrefix begins the name of every blob.
const blobPrefix = "blobs/"

// newTable is the one table: dynamostore's keys, no index. It is of the single-region
// kind (Table, not TableV2).
func (s *stack) newTable() awsdynamodb.Table {
	key := func(name string) *awsdynamodb.Attribute {
		return &awsdynamodb.Attribute{Name: &name, Type: awsdynamodb.AttributeType_STRING}
	}
	return awsdynamodb.NewTable(s.scope, jsii.String("Table"), &awsdynamodb.TableProps{
		PartitionKey: key(dynamostore.PartitionKey), SortKey: key(dynamostore.SortKey),
		TimeToLiveAttribute:              jsii.String(dynamostore.TTL),
		BillingMode:                      awsdynamodb.BillingMode_PAY_PER_REQUEST,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		DeletionProtection:               &s.cfg.Keep,
		RemovalPolicy:                    s.removal(),
	})
}

// newBucket holds large values. They go with their conversation, so none expires.
func (s *stack) newBucket() awss3.Bucket {
	return awss3.NewBucket(s.scope, jsii.String("Blobs"), &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		EnforceSSL:        jsii.Bool(s.cfg.speaksTLS()),
		MinimumTLSVersion: minimumTLS(s.cfg),
		RemovalPolicy:     s.removal(),
		LifecycleRules: &[]*awss3.LifecycleRule{{
			Id:                                  jsii.String("TidyUp"),
			AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(1)),
			Transitions: &[]*awss3.Transition{{
				StorageClass: awss3.StorageClass_INTELLIGENT_TIERING(), TransitionAfter: awscdk.Duration_Days(jsii.Number(30)),
			}},
		}},
	})
}

func minimumTLS(cfg Config) *float64 {
	if !cfg.speaksTLS() {
		return nil
	}
	return jsii.Number(1.2)
}
