package api

import "github.com/errand-dev/errand/shared/money"

// Spend is what some model calls have cost.
type Spend struct {
	ModelCalls   int64      `json:"model_calls"`
	InputTokens  int64      `json:"input_tokens"`
	OutputTokens int64      `json:"output_tokens"`
	USD          *money.USD `json:"usd,omitempty"`
}

// Cost is what the model calls of a run or turn have cost.
type Cost struct {
	ModelCalls       int64      `json:"model_calls"`
	InputTokens      int64      `json:"input_tokens" doc:"All that went in, with what was read from a cache or written to it."`
	OutputTokens     int64      `json:"output_tokens"`
	CacheReadTokens  int64      `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64      `json:"cache_write_tokens,omitempty"`
	USD              *money.USD `json:"usd,omitempty" doc:"Absent if a call's model has no price."`
	UnpricedCalls    int64      `json:"unpriced_calls,omitempty"`
	UncertainCalls   int64      `json:"uncertain_calls,omitempty" doc:"Calls whose answer was lost, by a crash or a broken connection. They may have been billed and are counted as estimated."`
	AfterFence       *Spend     `json:"after_fence,omitempty" doc:"The part that calls have cost which were under way when the run was cancelled or given up."`
}

// RunCost is what a run and all below it have cost.
type RunCost struct {
	RunID     string    `json:"run_id"`
	Own       Cost      `json:"own" doc:"The run's own calls."`
	Tree      Cost      `json:"tree" doc:"Those of the run and of all runs below it that are kept."`
	Reserved  *Spend    `json:"reserved,omitempty" doc:"What is set aside for calls under way, if the run has a limit."`
	MaxTokens int64     `json:"max_tokens,omitempty" doc:"The limit of the tree, with what people have allowed beyond it."`
	MaxUSD    money.USD `json:"max_usd,omitzero" doc:"The limit of the tree, with what people have allowed beyond it."`
}
