package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden template instead of comparing with it")

// dist holds a stub for each bootstrap: the golden template must not change with their code.
var dist string

// No test of this package is parallel: jsii is one pipe to one Node process.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	if _, err := exec.LookPath("node"); err != nil {
		fmt.Fprintln(os.Stderr, "NOT TESTED: the CDK needs node on the PATH.")
		if os.Getenv("CI") != "" {
			return 1, err
		}
		return 0, nil
	}
	var err error
	if dist, err = os.MkdirTemp("", "errand-infra-*"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(dist)
	for _, function := range []string{ingress, executor, reconcile} {
		if err := os.MkdirAll(filepath.Join(dist, function), 0o755); err != nil {
			return 1, err
		}
		if err := os.WriteFile(filepath.Join(dist, function, "bootstrap"), []byte(function), 0o755); err != nil {
			return 1, err
		}
	}
	defer jsii.Close()
	return m.Run(), nil
}

// template is what the tests read of a CloudFormation template.
type template struct {
	Resources map[string]resource
	Outputs   map[string]any
	raw       []byte
}

type resource struct {
	Type, DeletionPolicy string
	Properties           map[string]any
}

// context is that of a deployment of the stage; more are further pairs.
func context(stage string, more ...string) func(string) string {
	all := map[string]string{"stage": stage, "dist": dist, "jwtIssuer": "https://issuer.example", "jwtAudience": "errand"}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return func(name string) string { return all[name] }
}

// synth returns the template of a deployment. validate checks it against the schemas of
// CloudFormation too, which takes seconds; a finding is a panic.
func synth(t *testing.T, validate bool, context func(string) string) template {
	t.Helper()
	cfg, err := ConfigFrom(context)
	if err != nil {
		t.Fatal(err)
	}
	flags, err := featureFlags()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	app := awscdk.NewApp(&awscdk.AppProps{Context: &flags, Outdir: &out, BuiltinCloudFormationValidation: &validate, AnalyticsReporting: jsii.Bool(false)})
	stack := NewStack(app, cfg)
	app.Synth(nil)
	raw, err := os.ReadFile(filepath.Join(out, *stack.TemplateFile()))
	if err != nil {
		t.Fatal(err)
	}
	parsed := template{raw: raw}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// once holds the template that most tests read.
var once struct {
	sync.Once
	template
}

func prod(t *testing.T) template {
	t.Helper()
	once.Do(func() { once.template = synth(t, false, context("prod")) })
	return once.template
}

// of returns the resources of a type, by name.
func (t template) of(kind string) map[string]resource {
	found := map[string]resource{}
	for id, r := range t.Resources {
		if r.Type == kind {
			found[name(id)] = r
		}
	}
	return found
}

var hash = regexp.MustCompile(`[0-9A-F]{8}$`)

// name is a logical id without the hash that the CDK appends.
func name(id string) string { return hash.ReplaceAllString(id, "") }

// render writes a value as text: a reference as the name of what it refers to, an attribute as
// Name.Attribute.
func render(value any) string {
	switch v := value.(type) {
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok {
			return name(ref)
		}
		if get, ok := v["Fn::GetAtt"].([]any); ok {
			return name(get[0].(string)) + "." + get[1].(string)
		}
		if join, ok := v["Fn::Join"].([]any); ok {
			parts := join[1].([]any)
			texts := make([]string, len(parts))
			for i, part := range parts {
				texts[i] = render(part)
			}
			return strings.Join(texts, join[0].(string))
		}
	}
	return fmt.Sprint(value)
}

// list is a value or a list of values, as policies have them.
func list(value any) []string {
	values, ok := value.([]any)
	if !ok {
		values = []any{value}
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = render(v)
	}
	return texts
}

// at walks down properties.
func at(properties map[string]any, path ...string) any {
	var value any = properties
	for _, key := range path {
		next, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = next[key]
	}
	return value
}

func TestTheTemplateIsTheReviewedOne(t *testing.T) {
	got := prod(t)
	const golden = "testdata/errand-prod.template.json"
	if *update {
		if err := os.WriteFile(golden, got.raw, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got.raw)); diff != "" {
		t.Errorf("if this is meant, run `go test ./infra -update` and review the change (-want +got)\n%s", diff)
	}
}

func TestCloudFormationsOwnRulesFindNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED in -short: it takes seconds")
	}
	for _, auth := range []string{"jwt", "iam"} {
		synth(t, true, context("prod", "auth", auth, "alarmEmail", "ops@errand.example"))
	}
}

func TestNothingButResourcesOfAWSIsDeployed(t *testing.T) {
	for id, r := range prod(t).Resources {
		if !strings.HasPrefix(r.Type, "AWS::") {
			t.Errorf("%s is %s: a helper function with a role that nobody reviewed", id, r.Type)
		}
	}
}
