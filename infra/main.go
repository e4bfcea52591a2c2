// Command infra writes the CloudFormation template of Errand, and the assets it needs,
// for the CDK's command line to deploy. It reads no environment and calls no service: what
// a deployment is, its context says.
//
//	cdk deploy -c stage=prod -c jwtIssuer=https://issuer -c jwtAudience=errand
//
// Main path: config.go, then stack.go.
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	err := synthesise()
	jsii.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func synthesise() error {
	flags, err := featureFlags()
	if err != nil {
		return err
	}
	app := awscdk.NewApp(&awscdk.AppProps{Context: &flags})
	cfg, err := ConfigFrom(func(name string) string {
		value := app.Node().TryGetContext(&name)
		if value == nil {
			return ""
		}
		return fmt.Sprint(value)
	})
	if err != nil {
		return err
	}
	NewStack(app, cfg)
	app.Synth(nil)
	return nil
}
