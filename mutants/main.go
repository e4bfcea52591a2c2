// The mutants command shows that the tests can fail: it changes one condition or one
// order of steps of the sources at a time and expects a test to notice.
//
//	go run ./mutants                 all of them
//	go run ./mutants -quick          those of the protocols that die without a search
//	go run ./mutants claim           those with "claim" in their name
//	go run ./mutants -write          bring the table of docs/mutants.md up to date; test nothing
//
// A mutant never touches the tree: the changed file is laid over it (go test -overlay).
// The command prints a table and ends with status 1 if a mutant survives, or is killed
// by another suite than the list says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "only mutants of the protocols that die without a search for a rare seed")
	write := flags.Bool("write", false, "write the table of "+page+" and test nothing")
	parallel := flags.Int("parallel", 2, "how many mutants to test at a time")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *write:
		return writePage()
	}
	chosen := choose(flags.Args(), *quick)
	began := time.Now()
	verdicts := testAll(ctx, chosen, *parallel)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("testing mutants: %w", err)
	}
	return report(chosen, verdicts, time.Since(began))
}

// choose returns the mutants whose name has one of the words in it: all, without words.
func choose(words []string, quick bool) []mutant {
	var chosen []mutant
	for _, m := range mutants {
		named := len(words) == 0
		for _, word := range words {
			named = named || strings.Contains(m.name, word)
		}
		if named && (m.quick() || !quick) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

func testAll(ctx context.Context, chosen []mutant, parallel int) []verdict {
	verdicts := make([]verdict, len(chosen))
	var wait sync.WaitGroup
	next := make(chan int)
	for range max(parallel, 1) {
		wait.Go(func() {
			for i := range next {
				verdicts[i] = test(ctx, chosen[i])
				fmt.Fprintln(os.Stderr, chosen[i].name+": "+verdicts[i].String())
			}
		})
	}
	for i := range chosen {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wait.Wait()
	return verdicts
}

func report(chosen []mutant, verdicts []verdict, took time.Duration) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mutant\tkilled by\ttime\t")
	bad := 0
	by := map[string]int{}
	for i, m := range chosen {
		v := verdicts[i]
		by[v.by]++
		note := ""
		if v.by != m.suite {
			bad++
			note = "the list says " + m.suite
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f s\t%s\n", m.name, v, v.took.Seconds(), note)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	fmt.Printf("%d mutants in %.0f s, killed by", len(chosen), took.Seconds())
	for _, name := range order {
		fmt.Printf(" %s %d", name, by[name])
	}
	fmt.Println()
	if bad > 0 {
		return fmt.Errorf("%d mutants were not killed as the list says", bad)
	}
	return nil
}
