package executor

import (
	"sync"

	"github.com/errand-dev/errand/shared/ledger"
)

// pad keeps events to be written together with the next ones: each write costs.
type pad struct {
	mu     sync.Mutex
	events []ledger.Event
}

func (p *pad) note(e ledger.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// notes returns what was noted since the last call.
func (p *pad) notes() []ledger.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events = nil
	return events
}
