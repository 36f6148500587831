package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strings"
)

// counter is one line of the metrics file: what the metric is called, its type and its help.
type counter struct{ field, kind, help string }

var kinds = []string{"gauge", "counter", "histogram", "summary", "label"}

// readCounters reads upstream's format: three columns, '#' begins a comment.
func readCounters(path string) ([]counter, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := csv.NewReader(file)
	reader.Comment = '#'
	reader.FieldsPerRecord = 3
	records, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	var found []counter
	for _, record := range records {
		each := counter{strings.Trim(record[0], " "), strings.Trim(record[1], " "), strings.Trim(record[2], " ")}
		if !known(each.field) {
			return nil, fmt.Errorf("could not find DCGM field '%s'", each.field)
		}
		if !slices.Contains(kinds, each.kind) {
			return nil, fmt.Errorf("could not find Prometheus metric type '%s' of '%s'", each.kind, each.field)
		}
		found = append(found, each)
	}
	return found, nil
}
