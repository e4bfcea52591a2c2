package openaimodel

import "github.com/errand-dev/errand/shared/model"

var (
	_ model.Defaulter = (*Model)(nil)
	_ model.Defaulter = (*Chat)(nil)
)

// Defaults implements model.Defaulter.
func (m *Model) Defaults() (name string, maxTokens int) { return m.options.Model, m.options.MaxTokens }

// Defaults implements model.Defaulter.
func (c *Chat) Defaults() (name string, maxTokens int) { return c.options.Model, c.options.MaxTokens }
