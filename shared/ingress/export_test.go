package ingress

import "slices"

// Answers returns the statuses that the routes may answer with, by method and path.
func Answers() map[string][]int {
	answers := map[string][]int{}
	for _, r := range routes() {
		statuses := []int{r.status, 500, 503}
		for _, code := range r.problems {
			k, _ := kindOf(code)
			statuses = append(statuses, k.status)
		}
		slices.Sort(statuses)
		answers[r.method+" "+r.path] = slices.Compact(statuses)
	}
	return answers
}

// Codes lists the codes of all problems.
func Codes() []string {
	var codes []string
	for _, k := range kinds() {
		codes = append(codes, k.code)
	}
	return codes
}
