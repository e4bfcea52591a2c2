package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed cdk.json
var cdkJSON []byte

// featureFlags returns the context of cdk.json. Only the command line reads that file;
// without it a test would see another template than the one that is deployed.
func featureFlags() (map[string]any, error) {
	var file struct {
		Context map[string]any `json:"context"`
	}
	if err := json.Unmarshal(cdkJSON, &file); err != nil {
		return nil, fmt.Errorf("reading cdk.json: %w", err)
	}
	return file.Context, nil
}
