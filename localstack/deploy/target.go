package main

import (
	"cmp"
	"fmt"
	"os/exec"
	"strings"
)

// target is where the stack is deployed, and what is different there.
type target struct {
	// name is ministack, localstack or aws.
	name string
	// url is the base URL of the endpoint; empty is AWS itself.
	url string
	// auth is what the API's authorizer asks for, jwt or iam.
	auth string
	// gateway: the endpoint has no HTTP API, and a stand-in invokes ingress (gateway.go).
	gateway bool
	// fires: the endpoint fires schedules. Where it does not, the tests send their ticks.
	fires bool
}

// Variables that choose a target. The last three replace what it would choose itself.
const (
	targetVariable    = "ENDPOINT"
	urlVariable       = "ERRAND_AWS_ENDPOINT"
	frontVariable     = "FRONT"
	schedulesVariable = "SCHEDULES"
)

// targetFrom reads ENDPOINT: ministack (the default), localstack or aws. FRONT=api means that the
// endpoint has HTTP APIs, as LocalStack has with a licence, FRONT=gateway that it has none.
// SCHEDULES=inject means that it does not fire schedules, SCHEDULES=fire that it does.
func targetFrom(getenv func(string) string) (target, error) {
	targets := map[string]target{
		"ministack": {url: "http://127.0.0.1:4566", auth: "jwt", fires: true},
		// Its free tier has no HTTP APIs, and its schedules are only kept.
		"localstack": {url: "http://127.0.0.1:4566", auth: "jwt", gateway: true},
		// The authorizer of AWS cannot ask an issuer on this machine.
		"aws": {auth: "iam", fires: true},
	}
	name := cmp.Or(getenv(targetVariable), "ministack")
	t, known := targets[name]
	if !known {
		return t, fmt.Errorf("%s is %q; it must be ministack, localstack or aws", targetVariable, name)
	}
	t.name = name
	if name != "aws" {
		t.url = strings.TrimRight(cmp.Or(getenv(urlVariable), t.url), "/")
	}
	switch front := getenv(frontVariable); {
	case front == "":
	case front == "gateway" && name != "aws":
		t.gateway, t.auth = true, "jwt"
	case front == "api" && name == "localstack":
		// From its container it cannot ask an issuer on this machine either.
		t.gateway, t.auth = false, "iam"
	case front != "api":
		return t, fmt.Errorf("%s is %q; it must be api or, but on AWS, gateway", frontVariable, front)
	}
	switch schedules := getenv(schedulesVariable); schedules {
	case "":
	case "fire", "inject":
		t.fires = schedules == "fire"
	default:
		return t, fmt.Errorf("%s is %q; it must be fire or inject", schedulesVariable, schedules)
	}
	return t, nil
}

// env is what programs need to work with the target, the CDK's command line among them.
func (t target) env() []string {
	if t.name == "aws" {
		return nil // that of the user
	}
	env := []string{"AWS_ENDPOINT_URL=" + t.url, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1"}
	if t.name == "localstack" {
		// A bucket is part of the host's name there.
		port := t.url[strings.LastIndex(t.url, ":")+1:]
		env = append(env, "AWS_ENDPOINT_URL_S3=http://s3.localhost.localstack.cloud:"+port)
	}
	return env
}

// arch is what the functions are built for: on AWS as they are in production, on an endpoint for this machine.
func (t target) arch(local string) string {
	if t.name == "aws" {
		return "arm64"
	}
	return local
}

// needs says what is missing on this machine.
func (t target) needs() error {
	for _, program := range []string{"go", "node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("deploying needs %s on the PATH: %w", program, err)
		}
	}
	return nil
}
