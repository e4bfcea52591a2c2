package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/errand-dev/errand/shared/platform"
	"github.com/errand-dev/errand/shared/subagent"
)

// Every key of every platform is built here and nowhere else. Ids cannot contain
// '/' or '#', so no two of them build the same key.
//
//	partition            sort                   item
//	tenant/conversation  CONV                   subagent.Conversation
//	                     TURN#<turn>            subagent.Turn
//	                     RUN#<run>              subagent.Run, the control row
//	                     SCHEDULE#<schedule>    schedule.Schedule
//	                     MSG#<number>           Message
//	                     EVENT#<number>         a batch of Events
//	                     EVENT~BACKBONE         subagent.Backbone, right behind the newest event
//	                     STATE#<path>#<name>    what an agent keeps
//	                     VALUE#<hash>           a value too large for its row
//	operator             CONTROLS               subagent.Controls
//	                     SIGNING                signing, the key of the tokens of callbacks
//	…/conversation/run   ACCOUNT#<life>#<whose> subagent.Account, of the run or turn, or of its tree
//	                     STEP#<life>#<key>      Step, the journal (of a run or of a turn)
//	                     MILESTONE#<life>#<n>   Milestone
//	                     INBOX#<life>#<n>       InboxMessage
//	                     QUESTION#<life>#<name> Question, to people
//	                     SIGNAL#<life>#<name>   Signal, the answer to one or to a callback

const (
	turnPrefix     = "TURN#"
	runPrefix      = "RUN#"
	schedulePrefix = "SCHEDULE#"
	messagePrefix  = "MSG#"
	eventPrefix    = "EVENT#"
	// eventFamily begins the keys of the events, and that of the backbone behind them.
	eventFamily     = "EVENT"
	backboneSort    = eventFamily + "~BACKBONE"
	statePrefix     = "STATE#"
	valuePrefix     = "VALUE#"
	accountPrefix   = "ACCOUNT#"
	stepPrefix      = "STEP#"
	milestonePrefix = "MILESTONE#"
	inboxPrefix     = "INBOX#"
	questionPrefix  = "QUESTION#"
	signalPrefix    = "SIGNAL#"
)

func partition(o subagent.Owner) string { return o.Tenant + "/" + o.Conversation }

func runPartition(o subagent.Owner, run string) string { return partition(o) + "/" + run }

func conversationKey(o subagent.Owner) platform.Key {
	return platform.Key{Partition: partition(o), Sort: "CONV"}
}

func backboneKey(o subagent.Owner) platform.Key {
	return platform.Key{Partition: partition(o), Sort: backboneSort}
}

func turnKey(o subagent.Owner, id string) platform.Key {
	return platform.Key{Partition: partition(o), Sort: turnPrefix + id}
}

func runKey(o subagent.Owner, id string) platform.Key {
	return platform.Key{Partition: partition(o), Sort: runPrefix + id}
}

func scheduleKey(o subagent.Owner, id string) platform.Key {
	return platform.Key{Partition: partition(o), Sort: schedulePrefix + id}
}

// signingKey and controlsKey are those of the rows that belong to no tenant: partitions of
// tenants have a '/'.
func signingKey() platform.Key  { return platform.Key{Partition: "operator", Sort: "SIGNING"} }
func controlsKey() platform.Key { return platform.Key{Partition: "operator", Sort: "CONTROLS"} }

func stateKey(o subagent.Owner, path, name string) platform.Key {
	return platform.Key{Partition: partition(o), Sort: statePrefix + path + "#" + name}
}

func messageKey(o subagent.Owner, number int64) platform.Key {
	return platform.Key{Partition: partition(o), Sort: numbered(messagePrefix, number)}
}

func eventKey(o subagent.Owner, number int64) platform.Key {
	return platform.Key{Partition: partition(o), Sort: numbered(eventPrefix, number)}
}

func valueKey(o subagent.Owner, hash string) platform.Key {
	return platform.Key{Partition: partition(o), Sort: valuePrefix + hash}
}

// Life names one life of a run or turn: what it has in its own partition. After a clear
// another one may have the same id, and whoever still works for the first must not write
// into its journal.
type Life struct {
	owner subagent.Owner
	id    string
	// life is the generation of a run, the time of acceptance of a turn.
	life int64
}

// LifeOf returns the life of a run.
func LifeOf(r subagent.Run) Life { return Life{r.Owner, r.ID, r.Generation} }

// LifeOfTurn returns the life of a turn.
func LifeOfTurn(t subagent.Turn) Life { return Life{t.Owner, t.ID, int64(t.AcceptedAt)} }

func (f Life) partition() string { return runPartition(f.owner, f.id) }

// prefix begins the sort keys of one kind of its items.
func (f Life) prefix(kind string) string { return kind + strconv.FormatInt(f.life, 10) + "#" }

func (f Life) key(kind, name string) platform.Key {
	return platform.Key{Partition: f.partition(), Sort: f.prefix(kind) + name}
}

func (f Life) numbered(kind string, n int) platform.Key {
	return platform.Key{Partition: f.partition(), Sort: numbered(f.prefix(kind), int64(n))}
}

// numbered keeps the byte order of sort keys that of their numbers.
func numbered(prefix string, n int64) string { return fmt.Sprintf("%s%016d", prefix, n) }

// batchNumber is the reverse of eventKey.
func batchNumber(k platform.Key) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(k.Sort, eventPrefix), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the key of a batch of events: %w", err)
	}
	return n, nil
}
