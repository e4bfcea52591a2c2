package subagent

import "time"

// Coalescing says how many ends of runs, that came while the conversation was busy, its agent
// is told in one turn. Each run is delivered and marked on its own all the same.
type Coalescing struct {
	// Max is how many are told together, with the first; below 2 each has its own turn.
	Max int
	// Window is how long after the first the others may have been accepted.
	Window time.Duration
}

// DefaultCoalescing suits agents that answer within seconds.
var DefaultCoalescing = Coalescing{Max: 16, Window: 10 * time.Minute}

// Busy reports whether the turn had to wait for another one, so that more may have come
// behind it.
func (k Coalescing) Busy(t Turn, c Conversation) bool {
	return k.Max > 1 && t.tells() && t.AcceptedAt <= c.LeftAt
}

// Fold chooses from the turns that stand behind first, in their order, those to be told with it.
func (k Coalescing) Fold(first Turn, behind []Turn) []Turn {
	var folded []Turn
	for _, t := range behind {
		if len(folded)+1 >= k.Max {
			break
		}
		if t.ID != first.ID && t.Status == Queued && t.tells() && t.AcceptedAt >= first.AcceptedAt &&
			t.AcceptedAt <= first.AcceptedAt.Add(k.Window) {
			folded = append(folded, t)
		}
	}
	return folded
}

// tells reports whether the turn tells the agent of a run's end.
func (t Turn) tells() bool { return t.Kind == FinishTurn && t.Mode == React }
