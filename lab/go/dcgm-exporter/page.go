package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// page is the text of /metrics.
type page struct {
	counters []counter
	gpus     []gpu
	seen     *history
	hostname string
}

type labels map[string]string

// line is one time series of a metric: labels and attributes, each sorted by name as upstream's template does, and a value.
type line struct {
	labels, attributes labels
	value              string
}

func (p page) render(pods map[string]pod) string {
	var out strings.Builder
	now := time.Now()
	common := map[string]labels{}
	for _, each := range p.gpus {
		common[each.uuid] = p.labelsOf(each)
	}
	for _, wanted := range p.counters {
		if wanted.kind == "label" {
			continue
		}
		var lines []string
		for _, each := range p.gpus {
			for _, found := range p.lines(wanted.field, each, now) {
				maps.Copy(found.labels, common[each.uuid])
				if holder, held := pods[each.uuid]; held {
					maps.Copy(found.attributes, labels{"container": holder.container, "namespace": holder.namespace, "pod": holder.name})
				}
				lines = append(lines, p.text(wanted.field, each, found))
			}
		}
		if len(lines) > 0 {
			head(&out, wanted)
			fmt.Fprintln(&out, strings.Join(lines, "\n"))
		}
	}
	head(&out, counter{"gpusmith_simulated", "gauge", "1: the GPUs are simulated, and the exporter is a stand-in for NVIDIA's."})
	fmt.Fprintln(&out, "gpusmith_simulated 1")
	return out.String()
}

func head(out *strings.Builder, of counter) {
	fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", of.field, of.help, of.field, of.kind)
}

func (p page) text(field string, of gpu, found line) string {
	var out strings.Builder
	fmt.Fprintf(&out, `%s{gpu="%d",UUID="%s",pci_bus_id="%s",device="nvidia%d",modelName="%s"`, field, of.index, of.uuid, of.bus, of.index, of.model)
	if p.hostname != "" {
		fmt.Fprintf(&out, `,hostname="%s"`, p.hostname)
	}
	for _, group := range []labels{found.labels, found.attributes} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			fmt.Fprintf(&out, `,%s="%s"`, name, group[name])
		}
	}
	fmt.Fprintf(&out, "} %s", found.value)
	return out.String()
}

// labelsOf are the fields of kind 'label', which upstream adds to every metric.
func (p page) labelsOf(of gpu) labels {
	found := labels{}
	for _, wanted := range p.counters {
		if read := readers[wanted.field]; wanted.kind == "label" && read != nil {
			if value, there := read(of); there {
				found[wanted.field] = value
			}
		}
	}
	return found
}

func (p page) lines(field string, of gpu, now time.Time) []line {
	switch field {
	case xidErrors:
		code, there := p.seen.xid(of.uuid)
		if !there {
			return nil
		}
		// Upstream has a text for each code.
		attributes := labels{"err_code": fmt.Sprint(code), "err_msg": "stand-in"}
		return []line{{labels{}, attributes, fmt.Sprint(code)}}
	case xidErrorsCount:
		return windowed(p.seen.xidCounts(of.uuid, now), p.seen.xidWindow, "xid", func(code uint64) string { return fmt.Sprint(code) })
	case clockEventsCount:
		return windowed(p.seen.clockCounts(of.uuid, now), p.seen.clockWindow, "clock_event", func(bit uint64) string { return clockEvents[bit] })
	}
	if read := readers[field]; read != nil {
		if value, there := read(of); there {
			return []line{{labels{}, labels{}, value}}
		}
	}
	return nil
}

// windowed are the counts of a window; without events one line says 0, as upstream's does.
func windowed(counts []count, window time.Duration, name string, say func(uint64) string) []line {
	size := fmt.Sprint(window.Milliseconds())
	if len(counts) == 0 {
		return []line{{labels{"window_size_in_ms": size}, labels{}, "0"}}
	}
	var found []line
	for _, each := range counts {
		found = append(found, line{labels{"window_size_in_ms": size, name: say(each.what)}, labels{}, fmt.Sprint(each.n)})
	}
	return found
}
