package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// gpu is one that was there at the start. It is kept when it is lost, as DCGM keeps it: what it said last stays known.
type gpu struct {
	nvml.Device
	index            int
	uuid, bus, model string
}

func findGPUs() ([]gpu, error) {
	count, ret := nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	var found []gpu
	for index := range count {
		device, ret := nvml.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue // lost before the start
		}
		each := gpu{Device: device, index: index}
		each.uuid, _ = device.GetUUID()
		each.model, _ = device.GetName()
		if info, ret := device.GetPciInfo(); ret == nvml.SUCCESS {
			each.bus = fmt.Sprintf("%08X:%02X:%02X.0", info.Domain, info.Bus, info.Device)
		}
		found = append(found, each)
	}
	return found, nil
}
