package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOneVariableChoosesWhereTheStackIsDeployed(t *testing.T) {
	t.Parallel()
	const local = "http://127.0.0.1:4566"
	for name, test := range map[string]struct {
		env  map[string]string
		want target
	}{
		"nothing":                    {nil, target{name: "ministack", url: local, auth: "jwt", fires: true}},
		"another port":               {map[string]string{"ERRAND_AWS_ENDPOINT": "http://host:1/"}, target{name: "ministack", url: "http://host:1", auth: "jwt", fires: true}},
		"LocalStack without licence": {map[string]string{"ENDPOINT": "localstack"}, target{name: "localstack", url: local, auth: "jwt", gateway: true}},
		"LocalStack with one":        {map[string]string{"ENDPOINT": "localstack", "FRONT": "api", "SCHEDULES": "fire"}, target{name: "localstack", url: local, auth: "iam", fires: true}},
		"AWS":                        {map[string]string{"ENDPOINT": "aws", "ERRAND_AWS_ENDPOINT": "http://host:1"}, target{name: "aws", auth: "iam", fires: true}},
		"the switches on MiniStack":  {map[string]string{"FRONT": "gateway", "SCHEDULES": "inject"}, target{name: "ministack", url: local, auth: "jwt", gateway: true}},
	} {
		got, err := targetFrom(func(name string) string { return test.env[name] })
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(target{})); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	for _, env := range []map[string]string{{"ENDPOINT": "azure"}, {"FRONT": "door"}, {"ENDPOINT": "aws", "FRONT": "gateway"}, {"SCHEDULES": "sometimes"}} {
		if got, err := targetFrom(func(name string) string { return env[name] }); err == nil {
			t.Errorf("%v is %+v", env, got)
		}
	}
}

// TestTheTemplateCanDoWithoutAnAPI takes the API out of the template of production.
func TestTheTemplateCanDoWithoutAnAPI(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("../../infra/testdata/errand-prod.template.json")
	if err != nil {
		t.Fatal(err)
	}
	pruned, err := prune(whole)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(pruned), "AWS::ApiGatewayV2") || regexp.MustCompile(`"(Ref|Fn::GetAtt)": *\[?\s*"Api"`).Match(pruned) {
		t.Error("there is something left of the API")
	}
	for _, kept := range []string{"AWS::DynamoDB::Table", "AWS::Lambda::EventSourceMapping", "AWS::Scheduler::ScheduleGroup", "AWS::CloudWatch::Alarm", `"IngressName"`, `"TurnsUrl"`} {
		if !strings.Contains(string(pruned), kept) {
			t.Errorf("%s is gone too", kept)
		}
	}
}

func TestTheStandInAsksForATokenLikeAnAuthorizer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	i, err := newIssuer("http://issuer")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := newIssuer("http://issuer")
	if err != nil {
		t.Fatal(err)
	}
	make := func(by *issuer, at time.Time) string {
		token, err := by.token("acme", at, "openid", "operator")
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good := make(i, now)
	claims, err := i.verify(good, now)
	if err != nil || claims["tenant"] != "acme" || claims["sub"] != "user-of-acme" || claims["scope"] != "openid operator" {
		t.Errorf("%v (%v)", claims, err)
	}
	for name, token := range map[string]string{
		"none": "", "no token": "x", "forged": make(foreign, now), "expired": make(i, now.Add(-25*time.Hour)), "tampered": strings.Replace(good, ".", ".A", 1),
	} {
		if claims, err := i.verify(token, now); err == nil {
			t.Errorf("%s: %v", name, claims)
		}
	}
}

// TestTheComposeFilePinsItsImageAndBindsToThisMachine reads the file as text: it was never started by
// a test, since there is no Docker where the tests run.
func TestTheComposeFilePinsItsImageAndBindsToThisMachine(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	value := func(pattern string) string {
		found := regexp.MustCompile(`(?m)^\s+(?:- )?` + pattern + `\s*$`).FindSubmatch(file)
		if found == nil {
			t.Errorf("nothing is %s", pattern)
			return ""
		}
		return string(found[1])
	}
	if image := value(`image: \$\{LOCALSTACK_IMAGE:-(.*)\}`); !regexp.MustCompile(`^localstack/localstack:\d{4}\.\d{2}\.\d+$`).MatchString(image) {
		t.Errorf("the image is %q, which is no release", image)
	}
	if port := value(`"([0-9.:]+:4566)"`); port != "127.0.0.1:4566:4566" {
		t.Errorf("it listens on %s", port)
	}
	value(`LOCALSTACK_AUTH_TOKEN: (\$\{LOCALSTACK_AUTH_TOKEN:\?.+\})`)
	services := strings.Split(value(`SERVICES: (\S+)`), ",")
	for _, service := range []string{"cloudformation", "dynamodb", "iam", "lambda", "logs", "s3", "scheduler", "sqs", "ssm", "sts"} {
		if !slices.Contains(services, service) {
			t.Errorf("the stack needs %s", service)
		}
	}
	for n, line := range strings.Split(string(file), "\n") {
		if strings.Contains(line, "\t") || (len(line)-len(strings.TrimLeft(line, " ")))%2 != 0 {
			t.Errorf("line %d is not indented by pairs of spaces", n+1)
		}
	}
}
