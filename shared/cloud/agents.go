package cloud

import (
	"github.com/errand-dev/errand/shared/agent"
	"github.com/errand-dev/errand/shared/lab"
)

// agents returns the agents of this deployment. Ingress, executor and reconcile share
// them: register your own here.
func agents(withLab bool) (*agent.Registry, error) {
	registry := agent.NewRegistry()
	if !withLab {
		return registry, nil
	}
	return registry, lab.Register(registry)
}
