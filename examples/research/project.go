package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/errand-dev/errand/shared/dispatch"
	"github.com/errand-dev/errand/shared/model"
	"github.com/errand-dev/errand/shared/safehttp"
	"github.com/errand-dev/errand/shared/serve"
	"github.com/errand-dev/errand/shared/subagent"
)

// project is the work on one question.
type project struct {
	owner subagent.Owner
	job   job
	model model.Model
	texts *library
	stack *serve.Stack
	// name is that of the work, run the researcher's run in it.
	name, run string
	// data is the data folder, report where the report goes.
	data, report string
	// guarded: there is a report already.
	guarded bool
}

// prepare checks what is asked before anything runs.
func prepare(o options) (*project, error) {
	folder, sources, err := sourcesOf(o)
	if err != nil {
		return nil, err
	}
	if o.wait < time.Second {
		return nil, fmt.Errorf("--wait is %v; it must be at least a second", o.wait)
	}
	p := &project{
		owner: subagent.Owner{Tenant: "default", Conversation: "research"},
		job:   job{Question: o.question, Sources: sources, WaitSeconds: int(o.wait.Seconds())}, model: o.model,
	}
	p.name = p.job.nameOf(folder, o.modelName)
	if p.model == nil {
		if p.model, err = modelOf(o.modelName, o.baseURL); err != nil {
			return nil, err
		}
	}
	if p.report, p.guarded, err = reportAt(o.out); err != nil {
		return nil, err
	}
	p.job.Replace = p.guarded
	if p.data, err = dataFolder(o.data, p.name); err != nil {
		return nil, err
	}
	p.texts, err = openLibrary(folder, o)
	return p, err
}

// reportAt returns the absolute path of the report, and whether a file is there.
func reportAt(out string) (path string, there bool, err error) {
	if path, err = filepath.Abs(out); err != nil {
		return "", false, fmt.Errorf("resolving the path of the report: %w", err)
	}
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || !folder.IsDir() {
		return "", false, fmt.Errorf("the report cannot be written: there is no folder %s", filepath.Dir(path))
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return "", false, fmt.Errorf("the report cannot be written: %s is there and no file", path)
	}
	return path, err == nil, nil
}

// dataFolder makes the data folder; it is readable by its user only.
func dataFolder(named, work string) (string, error) {
	if named == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding a place for the data folder: %w; name one with --data", err)
		}
		named = filepath.Join(cache, "errand-research", work)
	}
	dir, err := filepath.Abs(named)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("making the data folder: %w", err)
	}
	return dir, nil
}

func openLibrary(folder string, o options) (*library, error) {
	l := &library{}
	var err error
	if folder != "" {
		if l.root, err = os.OpenRoot(folder); err != nil {
			return nil, fmt.Errorf("opening the folder of sources: %w", err)
		}
	}
	if len(o.allow) > 0 {
		web := o.web
		web.Hosts, web.MaxBytes = o.allow, maxText
		if l.web, err = safehttp.New(web); err != nil {
			return nil, fmt.Errorf("--allow: %w", err)
		}
	}
	return l, nil
}

func (l *library) close() {
	if l.root != nil {
		l.root.Close()
	}
}

// open opens the data folder and dispatches the researcher, unless it is at work there.
func (p *project) open(ctx context.Context, o options) error {
	agents, err := p.agents(p.model, p.guarded)
	if err != nil {
		return err
	}
	if p.stack, err = serve.Open(ctx, serve.Options{Dir: p.data, Agents: agents}); err != nil {
		return err
	}
	if err := p.dispatch(ctx); err != nil {
		return errors.Join(err, p.stack.Close())
	}
	p.texts.kept = filepath.Join(p.data, p.run)
	return nil
}

// dispatch finds the run that a process before this one has begun, or begins another. The id
// of a run counts the times that the question was answered.
func (p *project) dispatch(ctx context.Context) error {
	runs, err := p.stack.Ledger.ListRuns(ctx, p.owner, "", 0)
	if err != nil {
		return err
	}
	answered := 0
	for _, r := range runs {
		switch {
		case r.Agent != researcher:
		case !r.Status.Live():
			answered++
		case !strings.HasPrefix(r.ID, p.name+"-"):
			return fmt.Errorf("in the data folder %s another question is being worked on; choose another --data", p.data)
		default:
			p.run = r.ID
			return p.load(ctx, r.Input, &p.job)
		}
	}
	p.run = fmt.Sprintf("%s-%d", p.name, answered+1)
	input, err := json.Marshal(p.job)
	if err != nil {
		return err
	}
	_, _, err = p.stack.Service.Dispatcher.Start(ctx, dispatch.Request{Owner: p.owner, Run: p.run, Agent: researcher, Input: input})
	return err
}
