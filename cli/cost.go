package cli

import (
	"fmt"
	"strings"

	"github.com/errand-dev/errand/shared/api"
)

// costRows are the lines of show about money: none, if no model was asked and nothing is
// limited.
func costRows(c api.RunCost) [][2]string {
	var rows [][2]string
	if c.Own.ModelCalls > 0 {
		rows = append(rows, [2]string{"cost", costText(c.Own)})
	}
	var limits []string
	if c.MaxUSD > 0 {
		limits = append(limits, c.MaxUSD.String())
	}
	if c.MaxTokens > 0 {
		limits = append(limits, fmt.Sprintf("%d tokens", c.MaxTokens))
	}
	if c.Tree.ModelCalls != c.Own.ModelCalls || limits != nil {
		text := costText(c.Tree)
		if limits != nil {
			text += "; the limit is " + strings.Join(limits, " and ")
		}
		rows = append(rows, [2]string{"tree cost", text})
	}
	if c.Reserved != nil {
		rows = append(rows, [2]string{"reserved", spendText(*c.Reserved)})
	}
	return rows
}

func costText(c api.Cost) string {
	text := spendText(api.Spend{ModelCalls: c.ModelCalls, InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, USD: c.USD})
	if c.UnpricedCalls > 0 {
		text += fmt.Sprintf("; %d calls of models without a price", c.UnpricedCalls)
	}
	if c.UncertainCalls > 0 {
		text += fmt.Sprintf("; %d calls in doubt, as estimated", c.UncertainCalls)
	}
	if c.AfterFence != nil {
		text += "; of that behind the fence: " + spendText(*c.AfterFence)
	}
	return text
}

func spendText(s api.Spend) string {
	text := fmt.Sprintf("%d model calls, %d tokens in, %d out", s.ModelCalls, s.InputTokens, s.OutputTokens)
	if s.USD == nil {
		return text
	}
	return s.USD.String() + ", " + text
}
