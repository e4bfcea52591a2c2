package importer

import (
	_ "embed" // for the sample
)

//go:embed testdata/airports.csv
var airports string

// Airports is a real CSV file of 3,376 airports, to try the importer with. Its source
// and licence are in testdata/SOURCE.md.
func Airports() string { return airports }
