package importer

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"
)

// Generate writes a CSV file of customers to w, a header and then rows rows. The
// same rows and seed give the same bytes. Values hold commas, quotation marks, line
// breaks, letters of many scripts and nothing at all, and every type of column
// occurs; no row is broken and no value contradicts its column.
func Generate(w io.Writer, rows int, seed uint64) error {
	out := csv.NewWriter(w)
	header := []string{"id", "code", "name", "company", "city", "signed_up", "last_seen", "active", "visits", "balance", "note"}
	if err := out.Write(header); err != nil {
		return fmt.Errorf("generating the header: %w", err)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for id := 1; id <= rows; id++ {
		if err := out.Write(customer(r, id)); err != nil {
			return fmt.Errorf("generating row %d: %w", id, err)
		}
	}
	out.Flush()
	return out.Error()
}

func customer(r *rand.Rand, id int) []string {
	firsts := []string{"Ada", "Zoë", "José", "Søren", "Nguyễn", "Łukasz", "Мария", "美咲", "Ἑλένη", "ليلى", "Grace", "Edsger"}
	lasts := []string{"Lovelace", "O'Brien", "García", "Kierkegaard", "Văn", "Wójcik", "Иванова", "佐藤", "Παππά", "حداد", "Hopper", "Dijkstra"}
	firms := []string{"Bolt, Nut & Co.", `The "Best" Bakery`, "Müller GmbH", "株式会社みらい", "Acme", "Nordlys A/S", ""}
	cities := []string{"Zürich", "São Paulo", "København", "Washington, D.C.", "東京", "Reykjavík", "Kraków", "Nairobi"}
	notes := []string{"", "", "", "", "Prefers e-mail", "Said \"call back\",\nthen hung up", "Lieferung: Hintertür\nKlingel defekt", "5\" screws 🔩", "tab\there"}

	signedUp := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, r.IntN(3650))
	lastSeen := signedUp.Add(time.Duration(r.IntN(400*24*3600)) * time.Second)
	seen := lastSeen.Format(time.RFC3339)
	if r.IntN(20) == 0 {
		seen = ""
	}
	return []string{
		strconv.Itoa(id),
		fmt.Sprintf("%05d", r.IntN(100_000)), // leading zeros: not a number
		pick(r, firsts) + " " + pick(r, lasts),
		pick(r, firms),
		pick(r, cities),
		signedUp.Format(time.DateOnly),
		seen,
		strconv.FormatBool(r.IntN(3) > 0),
		strconv.Itoa(r.IntN(500)),
		strconv.FormatFloat(float64(r.IntN(2_000_000)-500_000)/100, 'f', 2, 64),
		pick(r, notes),
	}
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }
