package main

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// reader asks for one value as upstream prints it; false where DCGM would have none ("blank"), which upstream leaves out.
type reader func(gpu) (string, bool)

const (
	xidErrors        = "DCGM_FI_DEV_XID_ERRORS"
	xidErrorsCount   = "DCGM_EXP_XID_ERRORS_COUNT"
	clockEventsCount = "DCGM_EXP_CLOCK_EVENTS_COUNT"
	megabyte         = 1 << 20
)

// readers has the fields that the simulated NVML can answer.
var readers = map[string]reader{
	"DCGM_FI_DEV_SM_CLOCK":                 func(g gpu) (string, bool) { return whole(g.GetClockInfo(nvml.CLOCK_SM)) },
	"DCGM_FI_DEV_MEM_CLOCK":                func(g gpu) (string, bool) { return whole(g.GetClockInfo(nvml.CLOCK_MEM)) },
	"DCGM_FI_DEV_GPU_TEMP":                 func(g gpu) (string, bool) { return whole(g.GetTemperature(nvml.TEMPERATURE_GPU)) },
	"DCGM_FI_DEV_SLOWDOWN_TEMP":            threshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN),
	"DCGM_FI_DEV_SHUTDOWN_TEMP":            threshold(nvml.TEMPERATURE_THRESHOLD_SHUTDOWN),
	"DCGM_FI_DEV_POWER_USAGE":              func(g gpu) (string, bool) { return watts(g.GetPowerUsage()) },
	"DCGM_FI_DEV_POWER_MGMT_LIMIT":         func(g gpu) (string, bool) { return watts(g.GetPowerManagementLimit()) },
	"DCGM_FI_DEV_ENFORCED_POWER_LIMIT":     func(g gpu) (string, bool) { return watts(g.GetEnforcedPowerLimit()) },
	"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": func(g gpu) (string, bool) { return whole(g.GetTotalEnergyConsumption()) },
	"DCGM_FI_DEV_PCIE_REPLAY_COUNTER":      func(g gpu) (string, bool) { return whole(g.GetPcieReplayCounter()) },
	"DCGM_FI_DEV_GPU_UTIL":                 used(func(u nvml.Utilization) uint32 { return u.Gpu }),
	"DCGM_FI_DEV_MEM_COPY_UTIL":            used(func(u nvml.Utilization) uint32 { return u.Memory }),
	"DCGM_FI_DEV_FB_TOTAL":                 memory(func(m nvml.Memory_v2) uint64 { return m.Total }),
	"DCGM_FI_DEV_FB_FREE":                  memory(func(m nvml.Memory_v2) uint64 { return m.Free }),
	"DCGM_FI_DEV_FB_USED":                  memory(func(m nvml.Memory_v2) uint64 { return m.Used }),
	"DCGM_FI_DEV_FB_RESERVED":              memory(func(m nvml.Memory_v2) uint64 { return m.Reserved }),
	"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL":        ecc(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC),
	"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":        ecc(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC),
	"DCGM_FI_DEV_ECC_SBE_AGG_TOTAL":        ecc(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC),
	"DCGM_FI_DEV_ECC_DBE_AGG_TOTAL":        ecc(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC),
	"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": func(g gpu) (string, bool) {
		rows, _, _, _, ret := g.GetRemappedRows()
		return whole(rows, ret)
	},
	"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": func(g gpu) (string, bool) {
		_, rows, _, _, ret := g.GetRemappedRows()
		return whole(rows, ret)
	},
	"DCGM_FI_DEV_ROW_REMAP_PENDING": func(g gpu) (string, bool) {
		_, _, pending, _, ret := g.GetRemappedRows()
		return whole(bit(pending), ret)
	},
	"DCGM_FI_DEV_ROW_REMAP_FAILURE": func(g gpu) (string, bool) {
		_, _, _, failed, ret := g.GetRemappedRows()
		return whole(bit(failed), ret)
	},
	"DCGM_FI_DEV_CLOCKS_EVENT_REASONS":              func(g gpu) (string, bool) { return whole(g.GetCurrentClocksEventReasons()) },
	"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS":            func(g gpu) (string, bool) { return whole(g.GetCurrentClocksEventReasons()) },
	"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL":   links(nvml.NVLINK_ERROR_DL_REPLAY),
	"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": links(nvml.NVLINK_ERROR_DL_RECOVERY),
	"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": links(nvml.NVLINK_ERROR_DL_CRC_FLIT),
	"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": links(nvml.NVLINK_ERROR_DL_CRC_DATA),
	"DCGM_FI_DRIVER_VERSION":                        func(gpu) (string, bool) { return words(nvml.SystemGetDriverVersion()) },
	"DCGM_FI_NVML_VERSION":                          func(gpu) (string, bool) { return words(nvml.SystemGetNVMLVersion()) },
	"DCGM_FI_DEV_SERIAL":                            func(g gpu) (string, bool) { return words(g.GetSerial()) },
	"DCGM_FI_DEV_VBIOS_VERSION":                     func(g gpu) (string, bool) { return words(g.GetVbiosVersion()) },
}

// without has fields that DCGM knows and the simulated NVML has no value for.
var without = set(
	"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL",
	"DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_THERMAL_VIOLATION", "DCGM_FI_DEV_SYNC_BOOST_VIOLATION",
	"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "DCGM_FI_DEV_LOW_UTIL_VIOLATION", "DCGM_FI_DEV_RELIABILITY_VIOLATION",
	"DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_RETIRED_PENDING",
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
	"DCGM_FI_DEV_FABRIC_MANAGER_STATUS", "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE",
	"DCGM_FI_DEV_BRAND", "DCGM_FI_DEV_OEM_INFOROM_VER", "DCGM_FI_DEV_ECC_INFOROM_VER",
	"DCGM_FI_DEV_POWER_INFOROM_VER", "DCGM_FI_DEV_INFOROM_IMAGE_VER",
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY",
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
	"DCGM_FI_PROF_PIPE_FP32_ACTIVE", "DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES",
	"DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES",
	"DCGM_EXP_GPU_HEALTH_STATUS", "DCGM_EXP_P2P_STATUS",
	// Not from NVML, but from what was seen since the start.
	xidErrors, xidErrorsCount, clockEventsCount,
)

func known(field string) bool {
	return readers[field] != nil || without[field]
}

func set(names ...string) map[string]bool {
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	return found
}

func whole[T int | uint32 | uint64](value T, ret nvml.Return) (string, bool) {
	return fmt.Sprintf("%d", value), ret == nvml.SUCCESS
}

func watts(milliwatts uint32, ret nvml.Return) (string, bool) {
	return fmt.Sprintf("%f", float64(milliwatts)/1000), ret == nvml.SUCCESS
}

func words(value string, ret nvml.Return) (string, bool) {
	return value, ret == nvml.SUCCESS
}

func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}

func threshold(kind nvml.TemperatureThresholds) reader {
	return func(g gpu) (string, bool) { return whole(g.GetTemperatureThreshold(kind)) }
}

func used(which func(nvml.Utilization) uint32) reader {
	return func(g gpu) (string, bool) {
		rates, ret := g.GetUtilizationRates()
		return whole(which(rates), ret)
	}
}

func memory(which func(nvml.Memory_v2) uint64) reader {
	return func(g gpu) (string, bool) {
		info, ret := g.GetMemoryInfo_v2()
		return whole(which(info)/megabyte, ret)
	}
}

func ecc(kind nvml.MemoryErrorType, counter nvml.EccCounterType) reader {
	return func(g gpu) (string, bool) { return whole(g.GetTotalEccErrors(kind, counter)) }
}

// links adds up the errors of all NVLinks; a GPU without any has no value.
func links(kind nvml.NvLinkErrorCounter) reader {
	return func(g gpu) (string, bool) {
		var total uint64
		for link := range nvml.NVLINK_MAX_LINKS {
			errors, ret := g.GetNvLinkErrorCounter(link, kind)
			if ret != nvml.SUCCESS {
				return fmt.Sprint(total), link > 0
			}
			total += errors
		}
		return whole(total, nvml.SUCCESS)
	}
}
