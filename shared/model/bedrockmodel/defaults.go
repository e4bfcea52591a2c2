package bedrockmodel

import "github.com/errand-dev/errand/shared/model"

var _ model.Defaulter = (*Model)(nil)

// Defaults implements model.Defaulter.
func (m *Model) Defaults() (name string, maxTokens int) { return m.options.Model, m.options.MaxTokens }
