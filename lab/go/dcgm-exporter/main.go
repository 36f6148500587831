// A stand-in for NVIDIA's dcgm-exporter, for the lab's simulated GPUs: DCGM is to be had in no form that a lab could compile.
//
// It has upstream's program name, flags, environment, mounts, port, names and labels as far as gpusmith's role and rules use
// them, and reads NVML where upstream asks DCGM. What it looks like is taken from NVIDIA/dcgm-exporter at commit d5e5f51
// (2026-05-12, the label is 'hostname' since then). A value that the simulated NVML does not have is absent.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// witness is the symbol by which the simulated NVML says what it is.
const witness = "gpusmith_simulated"

type options struct {
	collectors, address, socket, resources string
	kubernetes, noHostname                 bool
	interval, xidWindow, clockWindow       int // milliseconds
}

// text declares one of upstream's options: its flag, the short form, its variable, and the default.
func text(to *string, name, short, variable, value string) {
	if set := os.Getenv(variable); set != "" {
		value = set
	}
	for _, each := range []string{name, short} {
		if each != "" {
			flag.StringVar(to, each, value, variable)
		}
	}
}

func number(to *int, name, short, variable string, value int) {
	if set := os.Getenv(variable); set != "" {
		parsed, err := strconv.Atoi(set)
		if err != nil {
			fail("The variable '"+variable+"' is no number.", err)
		}
		value = parsed
	}
	for _, each := range []string{name, short} {
		if each != "" {
			flag.IntVar(to, each, value, variable)
		}
	}
}

func yes(to *bool, name, short, variable string) {
	value, _ := strconv.ParseBool(os.Getenv(variable))
	for _, each := range []string{name, short} {
		if each != "" {
			flag.BoolVar(to, each, value, variable)
		}
	}
}

func parse() options {
	var o options
	text(&o.collectors, "collectors", "f", "DCGM_EXPORTER_COLLECTORS", "/etc/dcgm-exporter/default-counters.csv")
	text(&o.address, "address", "a", "DCGM_EXPORTER_LISTEN", ":9400")
	number(&o.interval, "collect-interval", "c", "DCGM_EXPORTER_INTERVAL", 30000)
	yes(&o.kubernetes, "kubernetes", "k", "DCGM_EXPORTER_KUBERNETES")
	yes(&o.noHostname, "no-hostname", "n", "DCGM_EXPORTER_NO_HOSTNAME")
	number(&o.xidWindow, "xid-count-window-size", "x", "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE", 300000)
	number(&o.clockWindow, "clock-events-count-window-size", "", "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", 300000)
	text(&o.socket, "pod-resources-kubelet-socket", "", "DCGM_POD_RESOURCES_KUBELET_SOCKET", "/var/lib/kubelet/pod-resources/kubelet.sock")
	text(&o.resources, "nvidia-resource-names", "", "NVIDIA_RESOURCE_NAMES", "")
	flag.Parse()
	return o
}

func fail(what string, err error) {
	slog.Error(what, "error", err)
	os.Exit(1)
}

func hostname() string {
	if node := os.Getenv("NODE_NAME"); node != "" {
		return node
	}
	name, _ := os.Hostname()
	return name
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	o := parse()
	slog.Warn("This is gpusmith's stand-in for dcgm-exporter, for simulated GPUs. It is not NVIDIA's program.")
	wanted, err := readCounters(o.collectors)
	if err != nil {
		fail("The metrics file '"+o.collectors+"' cannot be used.", err)
	}
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		fail("NVML cannot be used.", ret)
	}
	if err := nvml.Extensions().LookupSymbol(witness); err != nil {
		fail("These GPUs are not simulated: use NVIDIA's dcgm-exporter.", err)
	}
	gpus, err := findGPUs()
	if err != nil {
		fail("The GPUs cannot be listed.", err)
	}
	slog.Info("GPUs found", "count", len(gpus))

	seen := newHistory(time.Duration(o.xidWindow)*time.Millisecond, time.Duration(o.clockWindow)*time.Millisecond)
	go seen.watchXids(gpus)
	go seen.sampleClocks(gpus, time.Duration(o.interval)*time.Millisecond)

	page := page{counters: wanted, gpus: gpus, seen: seen}
	if !o.noHostname {
		page.hostname = hostname()
	}
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		var pods map[string]pod
		if o.kubernetes {
			found, err := holders(o.socket, append(strings.Split(o.resources, ","), "nvidia.com/gpu"))
			if err != nil {
				slog.Warn("Failed to get pod mappings", "error", err) // and the values without pods, as upstream does
			}
			pods = found
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		fmt.Fprint(w, page.render(pods))
	})
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
	slog.Info("Starting webserver", "address", o.address)
	go func() {
		if err := http.ListenAndServe(o.address, nil); !errors.Is(err, http.ErrServerClosed) {
			fail("The web server cannot start.", err)
		}
	}()

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	nvml.Shutdown()
}
