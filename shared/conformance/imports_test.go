package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/errand-dev/errand/"

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string // directly, without tests
	Deps       []string // at any depth
}

// TestImportsPointDown checks the import rules of docs/design.md. A package that
// does not exist breaks no rule.
func TestImportsPointDown(t *testing.T) {
	packages := listPackages(t)
	var (
		pure     = shared("subagent", "platform", "money")
		aws      = shared("dynamostore", "sqsqueue", "sqsbatch", "schedulertimer", "s3blob", "awsclient", "awssign", "model/bedrockmodel")
		adapters = append(shared("sqlitestore", "model/anthropicmodel", "model/openaimodel"), aws...)
		cdk      = []string{"github.com/aws/aws-cdk-go", "github.com/aws/constructs-go", "github.com/aws/jsii-runtime-go"}
		vendors  = []string{"github.com/anthropics", "github.com/openai"}
		wiring   = shared("serve", "cloud") // put the whole stack together
		mayAWS   = append([]string{module + "functions", module + "infra", module + "localstack"}, aws...)
	)
	for path, p := range packages {
		if !strings.HasPrefix(path, module) && path+"/" != module {
			continue
		}
		for _, imported := range p.Imports {
			refuse := func(rule string) { t.Errorf("%s imports %s: %s", path, imported, rule) }
			switch {
			case within(path, pure...) && !packages[imported].Standard && !within(imported, pure...):
				refuse("the rules use the standard library only")
			case within(path, shared("subagent")...) && slices.Contains([]string{"os", "net", "net/http", "log", "log/slog"}, imported):
				refuse("the rules are pure")
			case within(imported, cdk...) && !within(path, module+"infra"):
				refuse("only the stack may know the CDK")
			case within(imported, "github.com/aws") && !within(path, mayAWS...):
				refuse("only what is made for AWS may know it")
			case within(imported, module+"functions"):
				refuse("functions are programs")
			case within(imported, shared("conformance", "model/modeltest")...):
				refuse("only tests use it")
			case within(imported, vendors...) && !within(path, adapters...):
				refuse("a vendor's SDK stays in its adapter")
			}
		}
		// What is in shared and neither adapter nor wiring is a use case, or what use cases need.
		if !within(path, module+"shared") || within(path, append(wiring, adapters...)...) {
			continue
		}
		for _, dep := range p.Deps {
			if within(dep, slices.Concat(adapters, vendors, []string{"github.com/aws", "modernc.org/sqlite"})...) {
				t.Errorf("%s depends on %s: a use case knows no technology", path, dep)
			}
		}
	}
}

func shared(names ...string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = module + "shared/" + name
	}
	return paths
}

// within reports whether path is one of the parents or below one.
func within(path string, parents ...string) bool {
	return slices.ContainsFunc(parents, func(parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") })
}

// listPackages returns every package of the module and all they depend on.
func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	// -e, because a package that does not compile is not this test's business.
	command := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"...")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("listing packages: %v\n%s", err, &stderr)
	}
	packages := make(map[string]listed)
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("reading the list of packages: %v", err)
		}
		packages[p.ImportPath] = p
	}
	if _, ok := packages[module+"shared/platform"]; !ok {
		t.Fatal("the list lacks package platform: the test would check nothing")
	}
	return packages
}
