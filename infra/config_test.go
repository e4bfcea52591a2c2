package main

import (
	"strings"
	"testing"
	"time"
)

func TestEverythingWrongWithADeploymentIsReportedAtOnce(t *testing.T) {
	_, err := ConfigFrom(func(name string) string {
		return map[string]string{"stage": "prod", "arch": "mips", "jwtIssuer": "http://issuer.example", "lab": "true", "dist": t.TempDir()}[name]
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"arch", "jwtIssuer", "jwtAudience", "lab agents", "ingress/bootstrap", "executor/bootstrap", "reconcile/bootstrap"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in: %v", want, err)
		}
	}
	for _, wrong := range []func(*Config){
		func(c *Config) { c.ExecutorTimeout = 16 * time.Minute },
		func(c *Config) { c.Turns = 1 },
		func(c *Config) { c.IngressMemory = 64 },
		func(c *Config) { c.Rate = 0 },
		func(c *Config) { c.Auth = "none" },
	} {
		c, err := ConfigFrom(context("prod"))
		if err != nil {
			t.Fatal(err)
		}
		wrong(&c)
		if c.Validate() == nil {
			t.Errorf("accepted %+v", c)
		}
	}
	if _, err := ConfigFrom(context("qa")); err == nil || !strings.Contains(err.Error(), "qa") {
		t.Errorf("a stage that is none: %v", err)
	}
}

func TestOnlyAnEmulatorsIssuerMayBeUnencrypted(t *testing.T) {
	for stage, ok := range map[string]bool{"prod": false, "dev": false, "local": true} {
		if _, err := ConfigFrom(context(stage, "jwtIssuer", "http://127.0.0.1:80")); (err == nil) != ok {
			t.Errorf("%s: %v", stage, err)
		}
	}
}
