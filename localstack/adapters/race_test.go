package adapters

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/errand-dev/errand/localstack/endpoint"
	"github.com/errand-dev/errand/shared/awsclient"
	"github.com/errand-dev/errand/shared/dynamostore"
	"github.com/errand-dev/errand/shared/platform"
)

const racers = 64

// raceRounds is 200, with -short 20, or what ERRAND_RACE_ROUNDS says.
func raceRounds(t *testing.T) int {
	value := os.Getenv("ERRAND_RACE_ROUNDS")
	switch {
	case value == "" && testing.Short():
		return 20
	case value == "":
		return 200
	}
	rounds, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("ERRAND_RACE_ROUNDS: %v", err)
	}
	return rounds
}

func TestOfSixtyFourConcurrentPutsOfAVersionExactlyOneWins(t *testing.T) {
	t.Parallel()
	store := newItems(t, endpoint.Clients(t, awsclient.Config{}))
	key := platform.Key{Partition: "race", Sort: "row"}
	for version := int64(1); version <= int64(raceRounds(t)); version++ {
		winners := raceOnce(t, store, key, version)
		if len(winners) != 1 {
			t.Fatalf("version %d was won by %v", version, winners)
		}
		stored, err := store.Get(t.Context(), key)
		if err != nil || stored.Version != version || !bytes.Equal(stored.Body, []byte(winners[0])) {
			t.Fatalf("version %d: stored %s at %d (%v), but the winner wrote %s", version, stored.Body, stored.Version, err, winners[0])
		}
	}
}

// raceOnce lets all racers put the same version, each with its own body, and
// returns the bodies of those who won. Who loses must be shown the winner's item;
// who sees its own item there has won, and only its first answer was lost.
func raceOnce(t *testing.T, store *dynamostore.Store, key platform.Key, version int64) (winners []string) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		start = make(chan struct{})
	)
	for racer := range racers {
		wg.Go(func() {
			body := fmt.Sprintf(`{"racer":%d,"version":%d}`, racer, version)
			<-start
			err := store.Put(t.Context(), platform.Item{Key: key, Version: version, Body: []byte(body)})
			conflict, lost := errors.AsType[*platform.ConflictError](err)
			switch {
			case err == nil, lost && string(conflict.Stored.Body) == body:
				mu.Lock()
				winners = append(winners, body)
				mu.Unlock()
			case !lost:
				t.Errorf("racer %d: %v", racer, err)
			case conflict.Stored.Version != version:
				t.Errorf("racer %d lost version %d to version %d", racer, version, conflict.Stored.Version)
			}
		})
	}
	close(start)
	wg.Wait()
	return winners
}
