package main

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// clockEvents are upstream's words for the bits of NVML's reasons for slow clocks.
var clockEvents = []string{
	"gpu_idle", "clocks_setting", "power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake", "display_clocks",
}

type event struct {
	at   time.Time
	what uint64
}

// history is what was seen of each GPU since the start, by UUID.
type history struct {
	mutex                  sync.Mutex
	xidWindow, clockWindow time.Duration
	lastXid                map[string]uint64
	xids, clocks           map[string][]event
}

func newHistory(xidWindow, clockWindow time.Duration) *history {
	return &history{
		xidWindow: xidWindow, clockWindow: clockWindow,
		lastXid: map[string]uint64{}, xids: map[string][]event{}, clocks: map[string][]event{},
	}
}

// watchXids collects Xids as they come. Those from before the start are not known, as they are not to DCGM.
func (h *history) watchXids(gpus []gpu) {
	set, ret := nvml.EventSetCreate()
	if ret != nvml.SUCCESS {
		slog.Error("Xids cannot be watched.", "error", ret)
		return
	}
	for _, each := range gpus {
		each.RegisterEvents(nvml.EventTypeXidCriticalError, set)
	}
	for {
		data, ret := set.Wait(1000)
		if ret != nvml.SUCCESS {
			if ret != nvml.ERROR_TIMEOUT {
				time.Sleep(time.Second)
			}
			continue
		}
		if uuid, ret := data.Device.GetUUID(); ret == nvml.SUCCESS {
			h.addXid(uuid, data.EventData, time.Now())
		}
	}
}

func (h *history) addXid(uuid string, code uint64, now time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.lastXid[uuid] = code
	h.xids[uuid] = append(recent(h.xids[uuid], now, h.xidWindow), event{now, code})
}

// sampleClocks looks at the reasons for slow clocks once an interval: upstream counts samples, too.
func (h *history) sampleClocks(gpus []gpu, interval time.Duration) {
	for ; ; time.Sleep(interval) {
		for _, each := range gpus {
			if reasons, ret := each.GetCurrentClocksEventReasons(); ret == nvml.SUCCESS {
				h.addClocks(each.uuid, reasons, time.Now())
			}
		}
	}
}

func (h *history) addClocks(uuid string, reasons uint64, now time.Time) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	kept := recent(h.clocks[uuid], now, h.clockWindow)
	for bit := range clockEvents {
		if reasons&(1<<bit) != 0 {
			kept = append(kept, event{now, uint64(bit)})
		}
	}
	h.clocks[uuid] = kept
}

// xid is the last one of a GPU, if there was any.
func (h *history) xid(uuid string) (uint64, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	code, there := h.lastXid[uuid]
	return code, there
}

type count struct {
	what uint64
	n    int
}

func (h *history) xidCounts(uuid string, now time.Time) []count {
	return h.counted(h.xids, uuid, now, h.xidWindow)
}

func (h *history) clockCounts(uuid string, now time.Time) []count {
	return h.counted(h.clocks, uuid, now, h.clockWindow)
}

func (h *history) counted(from map[string][]event, uuid string, now time.Time, window time.Duration) []count {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	numbers := map[uint64]int{}
	for _, each := range recent(from[uuid], now, window) {
		numbers[each.what]++
	}
	var found []count
	for _, what := range slices.Sorted(maps.Keys(numbers)) {
		found = append(found, count{what, numbers[what]})
	}
	return found
}

func recent(events []event, now time.Time, window time.Duration) []event {
	first := slices.IndexFunc(events, func(each event) bool { return now.Sub(each.at) < window })
	if first < 0 {
		return nil
	}
	return events[first:]
}
