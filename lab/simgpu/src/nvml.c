/* libnvidia-ml.so of the simulated driver (gpusmith lab). Functions that are not simulated answer NOT_SUPPORTED. */
#include "state.h"

#include <time.h>

#define API __attribute__((visibility("default")))
typedef int ret_t;
enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18, IN_USE = 19,
    MEMORY = 20, INSUFFICIENT_RESOURCES = 23, ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999
};

/* Second witness of a simulation: validation looks for this symbol. */
API const char gpusmith_simulated[] = "gpusmith simulated GPU, driver " DRIVER_VERSION;

typedef struct {
    int index, minor, fd;
    char uuid[48], pci[20];
} device;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int users, live = -1, control = -1, devices;
static device device_table[SG_MAX_GPUS];

/* --- start and end ------------------------------------------------------------------------------------ */

static ret_t begin(void) {
    sg_state *state = malloc(sizeof *state);
    ret_t result = OK;
    if (!state) return MEMORY;
    live = sg_open(O_RDONLY);
    if (live < 0 || sg_read(live, state)) { result = DRIVER_NOT_LOADED; goto out; }
    if (!state->loaded) {
        sg_modprobe(0);
        if (sg_read(live, state) || !state->loaded) { result = DRIVER_NOT_LOADED; goto out; }
    }
    int denied = sg_device("/dev/nvidiactl");
    if (denied == ENOENT) { sg_modprobe(255); denied = sg_device("/dev/nvidiactl"); }
    if (denied) { result = denied == ENOENT ? DRIVER_NOT_LOADED : denied == EACCES ? NO_PERMISSION : UNKNOWN; goto out; }
    if (strcmp(state->version, DRIVER_VERSION)) { result = LIB_RM_VERSION_MISMATCH; goto out; }
    if (sg_hold(live, SG_NVIDIA)) { result = UNKNOWN; goto out; }
    control = sg_show("/dev/nvidiactl");
    devices = 0;
    for (int i = 0; i < state->gpus; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/nvidia%d", state->gpu[i].minor);
        denied = sg_device(path);
        if (denied == ENOENT) { sg_modprobe(state->gpu[i].minor); denied = sg_device(path); }
        if (denied) continue;
        device *d = &device_table[devices];
        d->index = devices++;
        d->minor = state->gpu[i].minor;
        d->fd = sg_show(path);
        sg_copy(d->uuid, sizeof d->uuid, state->gpu[i].uuid);
        sg_copy(d->pci, sizeof d->pci, state->gpu[i].pci);
    }
out:
    if (result && live >= 0) { close(live); live = -1; }
    free(state);
    return result;
}

API ret_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&mutex);
    ret_t result = users ? OK : begin();
    if (!result) users++;
    pthread_mutex_unlock(&mutex);
    return result;
}
API ret_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API ret_t nvmlInit(void) { return nvmlInitWithFlags(0); }

API ret_t nvmlShutdown(void) {
    ret_t result = OK;
    pthread_mutex_lock(&mutex);
    if (!users) result = UNINITIALIZED;
    else if (!--users) {
        for (int i = 0; i < devices; i++) if (device_table[i].fd >= 0) close(device_table[i].fd);
        if (control >= 0) close(control);
        close(live);
        live = control = -1;
        devices = 0;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

/* State for one call. */
static ret_t look(sg_state *state) {
    if (!users) return UNINITIALIZED;
    if (sg_read(live, state)) return UNKNOWN;
    return state->loaded ? OK : DRIVER_NOT_LOADED;
}

static device *check(void *handle) {
    device *d = handle;
    return users && d >= device_table && d < device_table + devices ? d : NULL;
}

static const sg_gpu *find(const sg_state *state, const device *d) {
    for (int i = 0; i < state->gpus; i++) if (!strcmp(state->gpu[i].uuid, d->uuid)) return &state->gpu[i];
    return NULL;
}

/* Opens a function about one device: D, its row G and the state S, or the error is returned. */
#define DEVICE(handle)                                                      \
    sg_state S_, *S = &S_;                                                  \
    device *D = check(handle);                                              \
    if (!users) return UNINITIALIZED;                                       \
    if (!D) return INVALID_ARGUMENT;                                        \
    ret_t seen_ = look(S);                                                  \
    if (seen_) return seen_;                                                \
    const sg_gpu *G = find(S, D);                                           \
    if (!G || G->lost) return GPU_IS_LOST;                                  \
    (void)G
#define NEED(pointer) do { if (!(pointer)) return INVALID_ARGUMENT; } while (0)

static ret_t text(char *to, unsigned size, const char *from) {
    NEED(to);
    if (size <= strlen(from)) return INSUFFICIENT_SIZE;
    memcpy(to, from, strlen(from) + 1);
    return OK;
}

API const char *nvmlErrorString(ret_t code) {
    static const struct { ret_t code; const char *text; } words[] = {
        {0, "Success"}, {1, "Uninitialized"}, {2, "Invalid Argument"}, {3, "Not Supported"},
        {4, "Insufficient Permissions"}, {5, "Already Initialized"}, {6, "Not Found"}, {7, "Insufficient Size"},
        {8, "Insufficient External Power"}, {9, "Driver Not Loaded"}, {10, "Timeout"}, {11, "Interrupt Request Issue"},
        {12, "NVML Shared Library Not Found"}, {13, "Function Not Found"}, {14, "Corrupted infoROM"},
        {15, "GPU is lost"}, {16, "GPU requires reset"},
        {17, "GPU access blocked by the operating system"}, {18, "Driver/library version mismatch"},
        {19, "In use by another client"}, {20, "Insufficient Memory"}, {21, "No data"},
        {23, "Insufficient Resources"},
        {25, "Argument version mismatch"}, {27, "System is not ready"}, {28, "No GPUs were found"},
        {999, "Unknown Error"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) if (words[i].code == code) return words[i].text;
    return "Unknown Error";
}

/* --- MIG devices: handles of parts of a GPU ------------------------------------------------------------- */

/* What the handles of instances point at, for each ID of a GPU instance. Its compute instance is as large as it is. */
enum { MIG_DEVICE, GPU_INSTANCE, COMPUTE_INSTANCE, KINDS };
static char handles[SG_MAX_GPUS][SG_GPU_INSTANCES][KINDS];

static void *handle_of(const device *d, int gi, int kind) { return &handles[d->index][gi][kind]; }

/* The GPU and the GPU instance's ID of such a handle; -1 if it is none of that kind. */
static int resolve(const void *handle, int kind, device **d) {
    uintptr_t at = (uintptr_t)handle - (uintptr_t)handles;
    if (at >= sizeof handles || at % KINDS != (unsigned)kind || at / sizeof *handles >= (unsigned)devices) return -1;
    *d = &device_table[at / sizeof *handles];
    return (int)(at % sizeof *handles / KINDS);
}

static const sg_instance *instance_of(const sg_state *s, const sg_gpu *gpu, int gi) {
    for (int i = 0; i < s->instances; i++) if (s->instance[i].minor == gpu->minor && s->instance[i].gi == gi) return &s->instance[i];
    return NULL;
}

/* As DEVICE, for a handle of an instance: that is I, its profile P. A handle is invalid when its instance is gone. */
#define INSTANCE(handle, kind)                                              \
    sg_state S_, *S = &S_;                                                  \
    device *D = NULL;                                                       \
    if (!users) return UNINITIALIZED;                                       \
    int gi_ = resolve(handle, kind, &D);                                    \
    if (gi_ < 0) return INVALID_ARGUMENT;                                   \
    ret_t seen_ = look(S);                                                  \
    if (seen_) return seen_;                                                \
    const sg_gpu *G = find(S, D);                                           \
    if (!G || G->lost) return GPU_IS_LOST;                                  \
    const sg_instance *I = instance_of(S, G, gi_);                          \
    if (!I || (kind != GPU_INSTANCE && !I->compute)) return INVALID_ARGUMENT; \
    const sg_profile *P = sg_profile_of(S, I->profile);                     \
    (void)P

static int is_mig(const void *handle) { device *d; return users && resolve(handle, MIG_DEVICE, &d) >= 0; }

static ret_t mig_uuid(void *h, char *out, unsigned size) { INSTANCE(h, MIG_DEVICE); return text(out, size, I->uuid); }
static ret_t mig_name(void *h, char *out, unsigned size) {
    INSTANCE(h, MIG_DEVICE);
    char name[sizeof S->name + sizeof P->name + 5];
    snprintf(name, sizeof name, "%s MIG %s", S->name, P->name);
    return text(out, size, name);
}
static ret_t mig_index(void *h, unsigned *out) {
    INSTANCE(h, MIG_DEVICE); NEED(out);
    const sg_instance *seen[SG_GPU_INSTANCES];
    for (int i = sg_instances(S, G->minor, seen) - 1; i >= 0; i--) if (seen[i] == I) { *out = (unsigned)i; return OK; }
    return INVALID_ARGUMENT;
}
/* Of all instances by UUID, or of one GPU's by index. */
static ret_t mig_handle(const device *gpu, unsigned index, const char *uuid, void **out) {
    sg_state s;
    ret_t r = look(&s);
    if (r) return r;
    NEED(out);
    for (int k = 0; k < devices; k++) {
        const sg_instance *seen[SG_GPU_INSTANCES];
        const sg_gpu *row = find(&s, &device_table[k]);
        if (!row || row->lost || (gpu && gpu != &device_table[k])) continue;
        int count = sg_instances(&s, row->minor, seen);
        for (int i = 0; i < count; i++) {
            if (uuid ? strcmp(seen[i]->uuid, uuid) != 0 : (unsigned)i != index) continue;
            *out = handle_of(&device_table[k], seen[i]->gi, MIG_DEVICE);
            return OK;
        }
    }
    return NOT_FOUND;
}

/* --- system ------------------------------------------------------------------------------------------- */

API ret_t nvmlSystemGetDriverVersion(char *out, unsigned size) {
    sg_state s;
    ret_t r = look(&s);
    return r ? r : text(out, size, s.version);
}
API ret_t nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    char version[48];
    snprintf(version, sizeof version, "%d.%s", CUDA_VERSION / 1000, DRIVER_VERSION);
    return text(out, size, version);
}
API ret_t nvmlSystemGetCudaDriverVersion(int *out) { NEED(out); *out = CUDA_VERSION; return OK; }
API ret_t nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }
API ret_t nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    char path[64], name[256];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NOT_FOUND;
    ssize_t got = read(fd, name, sizeof name - 1);
    close(fd);
    name[got > 0 ? got - 1 : 0] = 0;
    return text(out, size, name);
}
API ret_t nvmlSystemGetHicVersion(unsigned *count, void *entries) { (void)entries; NEED(count); *count = 0; return OK; }
API ret_t nvmlUnitGetCount(unsigned *out) { if (!users) return UNINITIALIZED; NEED(out); *out = 0; return OK; }
API ret_t nvmlGetExcludedDeviceCount(unsigned *out) { NEED(out); *out = 0; return OK; }

/* --- handles ------------------------------------------------------------------------------------------ */

API ret_t nvmlDeviceGetCount_v2(unsigned *out) {
    sg_state s;
    ret_t r = look(&s);
    if (r) return r;
    NEED(out);
    *out = (unsigned)devices;
    return OK;
}
API ret_t nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

static ret_t give(int index, void **out) {
    sg_state s;
    ret_t r = look(&s);
    if (r) return r;
    NEED(out);
    if (index < 0) return NOT_FOUND;
    const sg_gpu *gpu = find(&s, &device_table[index]);
    if (!gpu || gpu->lost) return GPU_IS_LOST;
    *out = &device_table[index];
    return OK;
}
API ret_t nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    if (!users) return UNINITIALIZED;
    return index < (unsigned)devices ? give((int)index, out) : INVALID_ARGUMENT;
}
API ret_t nvmlDeviceGetHandleByIndex(unsigned index, void **out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }
API ret_t nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    if (!users) return UNINITIALIZED;
    NEED(uuid);
    if (!strncmp(uuid, "MIG-", 4)) return mig_handle(NULL, 0, uuid, out);
    int i = devices - 1;
    while (i >= 0 && strcmp(device_table[i].uuid, uuid)) i--;
    return give(i, out);
}
API ret_t nvmlDeviceGetHandleBySerial(const char *serial, void **out) {
    sg_state s;
    ret_t r = look(&s);
    if (r) return r;
    NEED(serial);
    for (int i = 0; i < devices; i++) {
        const sg_gpu *gpu = find(&s, &device_table[i]);
        if (gpu && !strcmp(gpu->serial, serial)) return give(i, out);
    }
    return NOT_FOUND;
}
API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out) {
    if (!users) return UNINITIALIZED;
    NEED(bus);
    const char *colon = strchr(bus, ':');
    if (!colon) return INVALID_ARGUMENT;
    const char *tail = strchr(colon + 1, ':') ? colon + 1 : bus; /* the domain may be left out, or have 8 digits */
    int i = devices - 1;
    while (i >= 0 && strncasecmp(device_table[i].pci + 5, tail, 5)) i--;
    return give(i, out);
}
API ret_t nvmlDeviceGetHandleByPciBusId(const char *bus, void **out) { return nvmlDeviceGetHandleByPciBusId_v2(bus, out); }

/* --- identity: known without asking the GPU, so also for a lost one ------------------------------------ */

#define KNOWN(handle)                     \
    if (!users) return UNINITIALIZED;     \
    device *D = check(handle);            \
    if (!D) return INVALID_ARGUMENT

API ret_t nvmlDeviceGetIndex(void *h, unsigned *out) {
    if (is_mig(h)) return mig_index(h, out);
    KNOWN(h); NEED(out);
    *out = (unsigned)D->index;
    return OK;
}
API ret_t nvmlDeviceGetMinorNumber(void *h, unsigned *out) { KNOWN(h); NEED(out); *out = (unsigned)D->minor; return OK; }
API ret_t nvmlDeviceGetUUID(void *h, char *out, unsigned size) {
    if (is_mig(h)) return mig_uuid(h, out, size);
    KNOWN(h);
    return text(out, size, D->uuid);
}
API ret_t nvmlDeviceGetName(void *h, char *out, unsigned size) {
    if (is_mig(h)) return mig_name(h, out, size);
    KNOWN(h);
    (void)D;
    sg_state s;
    ret_t r = look(&s);
    return r ? r : text(out, size, s.name);
}

typedef struct {
    char bus_legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_info;
typedef struct { char bus_id[16]; unsigned domain, bus, device, id, subsystem, reserved[4]; } pci_info_v2;

static void fill_pci(pci_info *out, const char *pci, unsigned id, unsigned subsystem) {
    memset(out, 0, sizeof *out);
    out->domain = (unsigned)sg_hex(pci, 4);
    out->bus = (unsigned)sg_hex(pci + 5, 2);
    out->device = (unsigned)sg_hex(pci + 8, 2);
    out->id = id;
    out->subsystem = subsystem;
    snprintf(out->bus_legacy, sizeof out->bus_legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.0", out->domain, out->bus & 0xff, out->device & 0xff);
}
API ret_t nvmlDeviceGetPciInfo_v3(void *h, pci_info *out) {
    KNOWN(h);
    NEED(out);
    sg_state s;
    ret_t r = look(&s);
    if (r) return r;
    fill_pci(out, D->pci, (unsigned)s.pci_device << 16 | 0x10DE, (unsigned)s.pci_subsystem << 16 | 0x10DE);
    return OK;
}
API ret_t nvmlDeviceGetPciInfo_v2(void *h, pci_info *out) { return nvmlDeviceGetPciInfo_v3(h, out); }
API ret_t nvmlDeviceGetPciInfo(void *h, pci_info_v2 *out) {
    pci_info full;
    NEED(out);
    ret_t r = nvmlDeviceGetPciInfo_v3(h, &full);
    if (r) return r;
    memset(out, 0, sizeof *out);
    memcpy(out->bus_id, full.bus_legacy, 16);
    out->domain = full.domain; out->bus = full.bus; out->device = full.device;
    out->id = full.id; out->subsystem = full.subsystem;
    return OK;
}

/* --- what a board is ---------------------------------------------------------------------------------- */

#define NUMBER(function, type, value) \
    API ret_t function(void *h, type *out) { DEVICE(h); NEED(out); *out = (type)(value); return OK; }
#define TEXT(function, value) \
    API ret_t function(void *h, char *out, unsigned size) { DEVICE(h); return text(out, size, value); }

TEXT(nvmlDeviceGetSerial, G->serial)
TEXT(nvmlDeviceGetVbiosVersion, "96.00.SIM.00.01")
TEXT(nvmlDeviceGetBoardPartNumber, "900-SIMULATED-000")
API ret_t nvmlDeviceGetGspFirmwareVersion(void *h, char *out) { DEVICE(h); NEED(out); strcpy(out, S->version); return OK; }
API ret_t nvmlDeviceGetGspFirmwareMode(void *h, unsigned *on, unsigned *by_default) {
    DEVICE(h); NEED(on); NEED(by_default);
    *on = *by_default = 1;
    return OK;
}
NUMBER(nvmlDeviceGetBrand, int, S->arch == 6 ? 2 : 14)
NUMBER(nvmlDeviceGetArchitecture, unsigned, S->arch)
NUMBER(nvmlDeviceGetBoardId, unsigned, sg_hex(G->pci + 5, 2) << 8)
NUMBER(nvmlDeviceGetMultiGpuBoard, unsigned, 0)
NUMBER(nvmlDeviceGetNumGpuCores, unsigned, S->sms * (S->arch == 7 || S->arch == 6 ? 64 : 128))
NUMBER(nvmlDeviceGetMemoryBusWidth, unsigned, S->arch == 6 ? 256 : S->arch == 8 ? 384 : 5120)
NUMBER(nvmlDeviceGetNumaNodeId, unsigned, G->numa)
NUMBER(nvmlDeviceGetComputeMode, int, G->compute_mode)
NUMBER(nvmlDeviceGetDisplayMode, int, 0)
NUMBER(nvmlDeviceGetDisplayActive, int, 0)
NUMBER(nvmlDeviceGetVirtualizationMode, int, 0)
NUMBER(nvmlDeviceGetPerformanceState, int, 0)
NUMBER(nvmlDeviceGetPowerState, int, 0)
/* 0: nobody set it, so it is the daemon's; 1: on; 2: off, also while the daemon runs, which turns it on when it starts. */
NUMBER(nvmlDeviceGetPersistenceMode, int, G->persistence == 1 || (!G->persistence && sg_held(live, SG_PERSISTENCED)))
/*
 * Settings belong to the driver: the simulated kernel keeps them until it is unloaded. NVML's reference says so of both
 * two of them (nvml.h): the power limit is not persistent across driver unloads, persistence mode not across reboots.
 */
static ret_t set(const sg_gpu *gpu, const char *name, unsigned value) {
    char number[16];
    const char *tool = sg_kernel();
    snprintf(number, sizeof number, "%u", value);
    const char *const words[] = {tool, "set", gpu->pci, name, number, NULL};
    if (!tool) return NO_PERMISSION;
    return sg_run(words) ? UNKNOWN : OK;
}
API ret_t nvmlDeviceSetPersistenceMode(void *h, int mode) {
    DEVICE(h);
    return mode == 0 || mode == 1 ? set(G, "persistence", mode ? 1 : 2) : INVALID_ARGUMENT;
}
/* 1, one thread, is gone since CUDA 8. */
API ret_t nvmlDeviceSetComputeMode(void *h, int mode) {
    DEVICE(h);
    return mode == SG_DEFAULT || mode == SG_PROHIBITED || mode == SG_EXCLUSIVE_PROCESS ? set(G, "compute_mode", (unsigned)mode) : INVALID_ARGUMENT;
}
NUMBER(nvmlDeviceGetIrqNum, unsigned, 0)
API ret_t nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    DEVICE(h); NEED(major); NEED(minor);
    *major = S->cc_major; *minor = S->cc_minor;
    return OK;
}
API ret_t nvmlDeviceGetCpuAffinity(void *h, unsigned size, unsigned long *set) {
    DEVICE(h); NEED(set);
    memset(set, 0, size * sizeof *set);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < cpus && i < (long)(size * 64); i++) set[i / 64] |= 1ul << (i % 64);
    return OK;
}
API ret_t nvmlDeviceOnSameBoard(void *a, void *b, int *out) { KNOWN(a); NEED(check(b)); NEED(out); *out = D == b; return OK; }

/* PCIe */
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, S->pcie_gen)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, S->pcie_gen)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, S->pcie_gen)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, S->pcie_width)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, S->pcie_width)
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, 0)
NUMBER(nvmlDeviceGetPcieSpeed, unsigned, S->pcie_gen == 3 ? 8000 : S->pcie_gen == 4 ? 16000 : 32000)

/* --- memory ------------------------------------------------------------------------------------------- */

typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_info_v2;

/* What programs use of an instance is not known: the kernel looks at GPUs. */
static ret_t mig_memory(void *h, memory_info *out) {
    INSTANCE(h, MIG_DEVICE); NEED(out);
    *out = (memory_info){sg_memory_of(S, P) << 20, sg_memory_of(S, P) << 20, 0};
    return OK;
}
API ret_t nvmlDeviceGetMemoryInfo(void *h, memory_info *out) {
    if (is_mig(h)) return mig_memory(h, out);
    DEVICE(h); NEED(out);
    out->total = (unsigned long long)S->memory_mib << 20;
    out->used = (unsigned long long)G->used_mib << 20;
    out->free = out->total - out->used;
    return OK;
}
API ret_t nvmlDeviceGetMemoryInfo_v2(void *h, memory_info_v2 *out) {
    memory_info first;
    NEED(out);
    if (out->version != (2u << 24 | sizeof *out)) return ARGUMENT_VERSION_MISMATCH;
    ret_t r = nvmlDeviceGetMemoryInfo(h, &first);
    if (!r) *out = (memory_info_v2){out->version, first.total, 0, first.free, first.used};
    return r;
}
API ret_t nvmlDeviceGetBAR1MemoryInfo(void *h, memory_info *out) {
    DEVICE(h); NEED(out);
    out->total = out->free = 128ull << 30;
    out->used = 0;
    return OK;
}

/* --- health ------------------------------------------------------------------------------------------- */

API ret_t nvmlDeviceGetEccMode(void *h, int *now, int *later) { DEVICE(h); NEED(now); NEED(later); *now = *later = 1; return OK; }
NUMBER(nvmlDeviceGetDefaultEccMode, int, 1)
API ret_t nvmlDeviceGetTotalEccErrors(void *h, int kind, int counter, unsigned long long *out) {
    DEVICE(h); NEED(out);
    if (kind < 0 || kind > 1 || counter < 0 || counter > 1) return INVALID_ARGUMENT;
    *out = kind == 0 ? 0 : (unsigned long long)(counter == 0 ? G->ecc : G->ecc_total);
    return OK;
}
API ret_t nvmlDeviceGetMemoryErrorCounter(void *h, int kind, int counter, int where, unsigned long long *out) {
    DEVICE(h); NEED(out);
    /* where: 2 = device memory, which is where the lab's errors are */
    *out = kind == 1 && where == 2 ? (unsigned long long)(counter == 0 ? G->ecc : G->ecc_total) : 0;
    return OK;
}
API ret_t nvmlDeviceGetDetailedEccErrors(void *h, int kind, int counter, unsigned long long out[4]) {
    DEVICE(h); NEED(out);
    memset(out, 0, 4 * sizeof *out);
    if (kind == 1) out[2] = (unsigned long long)(counter == 0 ? G->ecc : G->ecc_total);
    return OK;
}
API ret_t nvmlDeviceGetRemappedRows(void *h, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    DEVICE(h); NEED(corrected); NEED(uncorrected); NEED(pending); NEED(failed);
    if (S->arch < 7) return NOT_SUPPORTED; /* row remapping came with Ampere */
    *corrected = 0;
    *uncorrected = (unsigned)G->remapped;
    *pending = (unsigned)G->pending;
    *failed = 0;
    return OK;
}
API ret_t nvmlDeviceGetRowRemapperHistogram(void *h, unsigned out[5]) {
    DEVICE(h); NEED(out);
    if (S->arch < 7) return NOT_SUPPORTED;
    out[0] = 640; out[1] = 0; out[2] = 0; out[3] = (unsigned)(G->remapped > 0); out[4] = 0;
    return OK;
}
API ret_t nvmlDeviceGetRetiredPages(void *h, int cause, unsigned *count, unsigned long long *addresses) {
    DEVICE(h); NEED(count);
    if (S->arch >= 7) return NOT_SUPPORTED; /* page retirement ended with Turing */
    /* cause: 1 = double bit errors, which are the lab's. Pages that wait are listed as well. */
    unsigned found = cause == 1 ? (unsigned)(G->remapped + G->pending) : 0, room = *count;
    *count = found;
    if (found > room) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; addresses && i < found; i++) addresses[i] = 0x1000ull * (i + 1);
    return OK;
}
API ret_t nvmlDeviceGetRetiredPagesPendingStatus(void *h, int *out) {
    DEVICE(h); NEED(out);
    if (S->arch >= 7) return NOT_SUPPORTED;
    *out = G->pending > 0;
    return OK;
}
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, G->throttle ? G->throttle : !G->util) /* 1: idle */
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, G->throttle ? G->throttle : !G->util) /* 1: idle */
NUMBER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, 0x1ff)
NUMBER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, 0x1ff)
API ret_t nvmlDeviceGetTemperature(void *h, int sensor, unsigned *out) {
    DEVICE(h); NEED(out);
    if (sensor) return INVALID_ARGUMENT;
    *out = (unsigned)G->temp;
    return OK;
}
typedef struct { unsigned version; int sensor, value; } temperature_v1;
API ret_t nvmlDeviceGetTemperatureV(void *h, temperature_v1 *out) {
    DEVICE(h); NEED(out);
    if (out->version != (1u << 24 | 12)) return ARGUMENT_VERSION_MISMATCH;
    out->value = G->temp;
    return OK;
}
API ret_t nvmlDeviceGetTemperatureThreshold(void *h, int kind, unsigned *out) {
    DEVICE(h); NEED(out);
    if (kind < 0 || kind > 1) return NOT_SUPPORTED;
    *out = kind == 0 ? 92 : 89;
    return OK;
}
NUMBER(nvmlDeviceGetPowerUsage, unsigned, G->power_mw)
/* The kernel counts at each of its looks; since the last one the power is the same. */
static long energy_of(const sg_gpu *gpu) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return gpu->energy_mj + (now.tv_sec * 1000 + now.tv_nsec / 1000000 - gpu->energy_at_ms) * gpu->power_mw / 1000;
}
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, energy_of(G))
NUMBER(nvmlDeviceGetPowerManagementMode, int, 1)
static unsigned limit_of(const sg_state *s, const sg_gpu *gpu) { return gpu->limit_mw ? (unsigned)gpu->limit_mw : (unsigned)s->power_w * 1000; }
NUMBER(nvmlDeviceGetPowerManagementLimit, unsigned, limit_of(S, G))
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, S->power_w * 1000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, limit_of(S, G))
API ret_t nvmlDeviceGetPowerManagementLimitConstraints(void *h, unsigned *low, unsigned *high) {
    DEVICE(h); NEED(low); NEED(high);
    *low = 200000 < S->power_w * 500 ? 200000 : (unsigned)S->power_w * 500;
    *high = (unsigned)S->power_w * 1000;
    return OK;
}
API ret_t nvmlDeviceSetPowerManagementLimit(void *h, unsigned limit) {
    DEVICE(h);
    unsigned low, high;
    nvmlDeviceGetPowerManagementLimitConstraints(h, &low, &high);
    return limit < low || limit > high ? INVALID_ARGUMENT : set(G, "limit_mw", limit);
}
static unsigned clock_of(int kind) { return kind == 2 ? 2619 : 1980; }
API ret_t nvmlDeviceGetClockInfo(void *h, int kind, unsigned *out) {
    DEVICE(h); NEED(out);
    if (kind < 0 || kind > 3) return INVALID_ARGUMENT;
    *out = kind == 2 || G->util ? clock_of(kind) : 345; /* idle */
    return OK;
}
API ret_t nvmlDeviceGetMaxClockInfo(void *h, int kind, unsigned *out) {
    DEVICE(h); NEED(out);
    if (kind < 0 || kind > 3) return INVALID_ARGUMENT;
    *out = clock_of(kind);
    return OK;
}
/* GPU and memory: there is one number for both. Of a GPU in MIG mode there is none (nvml.h). */
API ret_t nvmlDeviceGetUtilizationRates(void *h, unsigned out[2]) {
    DEVICE(h); NEED(out);
    if (G->mig) return NOT_SUPPORTED;
    out[0] = out[1] = (unsigned)G->util;
    return OK;
}

typedef struct { unsigned pid; unsigned long long used; } process_v1;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_v3;

/* As the driver: whoever is in another PID namespace, as containers are, is told no processes. */
static int sees_processes(const sg_state *s) {
    char own[32] = ""; /* pid:[NUMBER]; stat has a new name since glibc 2.33 */
    return readlink("/proc/self/ns/pid", own, sizeof own - 1) > 5 && sg_number(own + 5) == s->pid_namespace;
}
static ret_t list_processes(void *h, unsigned *count, process_v1 *old, process_v3 *rows) {
    DEVICE(h); NEED(count);
    unsigned room = *count, found = sees_processes(S) ? (unsigned)G->processes : 0;
    *count = found;
    if (found > room) return INSUFFICIENT_SIZE;
    if (found && !old && !rows) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < found; i++) {
        unsigned pid = (unsigned)G->process[i].pid;
        unsigned long long used = (unsigned long long)G->process[i].used_mib << 20;
        if (old) old[i] = (process_v1){pid, used};
        else rows[i] = (process_v3){pid, used, 0xffffffff, 0xffffffff};
    }
    return OK;
}
API ret_t nvmlDeviceGetComputeRunningProcesses(void *h, unsigned *count, process_v1 *rows) { return list_processes(h, count, rows, NULL); }
API ret_t nvmlDeviceGetComputeRunningProcesses_v2(void *h, unsigned *count, process_v3 *rows) { return list_processes(h, count, NULL, rows); }
API ret_t nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, process_v3 *rows) { return list_processes(h, count, NULL, rows); }

#define NO_PROCESSES(function) \
    API ret_t function(void *h, unsigned *count, void *rows) { (void)rows; DEVICE(h); NEED(count); *count = 0; return OK; }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* --- topology and fabric ------------------------------------------------------------------------------- */

API ret_t nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *out) {
    DEVICE(a); NEED(out);
    device *other = check(b);
    NEED(other);
    const sg_gpu *second = find(S, other);
    if (!second) return GPU_IS_LOST;
    *out = D == other ? 0 : G->numa == second->numa ? 40 : 50;
    return OK;
}
API ret_t nvmlDeviceGetTopologyNearestGpus(void *h, int level, unsigned *count, void **out) {
    DEVICE(h); NEED(count);
    unsigned found = 0;
    for (int i = 0; i < devices; i++) {
        const sg_gpu *other = find(S, &device_table[i]);
        if (!other || &device_table[i] == D || (other->numa == G->numa ? 40 : 50) != level) continue;
        if (out && found < *count) out[found] = &device_table[i];
        found++;
    }
    *count = found;
    return OK;
}
API ret_t nvmlDeviceGetP2PStatus(void *a, void *b, int what, int *out) {
    DEVICE(a); NEED(check(b)); NEED(out);
    if (what < 0 || what > 5) return INVALID_ARGUMENT;
    *out = what == 2 ? (S->nvlinks ? 0 : 3) : 0;
    return OK;
}
API ret_t nvmlDeviceGetNvLinkState(void *h, unsigned link, int *out) {
    DEVICE(h); NEED(out);
    if (!S->nvlinks) return NOT_SUPPORTED;
    if (link >= (unsigned)S->nvlinks) return INVALID_ARGUMENT;
    *out = 1;
    return OK;
}
API ret_t nvmlDeviceGetNvLinkVersion(void *h, unsigned link, unsigned *out) {
    DEVICE(h); NEED(out);
    if (!S->nvlinks) return NOT_SUPPORTED;
    if (link >= (unsigned)S->nvlinks) return INVALID_ARGUMENT;
    *out = S->arch == 5 ? 2 : S->arch == 7 ? 3 : S->arch == 9 ? 4 : 5;
    return OK;
}
API ret_t nvmlDeviceGetNvLinkCapability(void *h, unsigned link, int what, unsigned *out) {
    DEVICE(h); NEED(out);
    if (!S->nvlinks) return NOT_SUPPORTED;
    if (link >= (unsigned)S->nvlinks || what < 0 || what > 5) return INVALID_ARGUMENT;
    *out = what != 4;
    return OK;
}
API ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(void *h, unsigned link, pci_info *out) {
    DEVICE(h); NEED(out);
    if (!S->nvlinks || !S->switches) return NOT_SUPPORTED;
    if (link >= (unsigned)S->nvlinks) return INVALID_ARGUMENT;
    fill_pci(out, S->switch_pci[link % (unsigned)S->switches], 0, 0);
    return OK;
}
API ret_t nvmlDeviceGetNvLinkRemotePciInfo(void *h, unsigned link, pci_info *out) { return nvmlDeviceGetNvLinkRemotePciInfo_v2(h, link, out); }
API ret_t nvmlDeviceGetNvLinkRemoteDeviceType(void *h, unsigned link, int *out) {
    DEVICE(h); NEED(out);
    if (!S->nvlinks) return NOT_SUPPORTED;
    if (link >= (unsigned)S->nvlinks) return INVALID_ARGUMENT;
    *out = 2; /* a switch */
    return OK;
}
API ret_t nvmlDeviceGetNvLinkErrorCounter(void *h, unsigned link, int counter, unsigned long long *out) {
    DEVICE(h); NEED(out);
    if (!S->nvlinks) return NOT_SUPPORTED;
    if (link >= (unsigned)S->nvlinks || counter < 0 || counter > 4) return INVALID_ARGUMENT;
    *out = 0;
    return OK;
}

typedef struct { unsigned char cluster[16]; ret_t status; unsigned clique; unsigned char state; } fabric_v1;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    ret_t status;
    unsigned clique;
    unsigned char state;
    unsigned health;
    unsigned char summary; /* version 3 */
} fabric_v3;

API ret_t nvmlDeviceGetGpuFabricInfo(void *h, fabric_v1 *out) {
    DEVICE(h); NEED(out);
    memset(out, 0, sizeof *out);
    if (!S->fabric_nvml) return NOT_SUPPORTED;
    out->state = (unsigned char)sg_fabric(live, S);
    return OK; /* one board: no cluster UUID, no clique, as on a single HGX machine */
}
API ret_t nvmlDeviceGetGpuFabricInfoV(void *h, fabric_v3 *out) {
    DEVICE(h); NEED(out);
    int version = (int)(out->version >> 24);
    size_t size = out->version & 0xffffff;
    if ((version != 2 || size != 36) && (version != 3 || size != 40)) return ARGUMENT_VERSION_MISMATCH;
    if (!S->fabric_nvml) return NOT_SUPPORTED;
    memset(out->cluster, 0, sizeof out->cluster);
    out->status = OK;
    out->clique = 0;
    out->state = (unsigned char)sg_fabric(live, S);
    out->health = 2 | 2 << 2 | 2 << 4 | 2 << 6; /* degraded bandwidth, route recovery, unhealthy route, timeout: false */
    if (version == 3) out->summary = 1;
    return OK;
}

/* --- Multi-Instance GPU: nvml.h says which error means what -------------------------------------------- */

/* The simulated kernel does it, and says by its exit status why not. */
static ret_t mig(const sg_gpu *gpu, const char *action, int number, int start) {
    char first[16], second[16];
    const char *tool = sg_kernel();
    snprintf(first, sizeof first, "%d", number);
    snprintf(second, sizeof second, "%d", start);
    const char *const words[] = {tool, "mig", gpu->pci, action, number < 0 ? NULL : first, start < 0 ? NULL : second, NULL};
    if (!tool) return NO_PERMISSION;
    int status = sg_run(words);
    if (!WIFEXITED(status)) return UNKNOWN;
    switch (WEXITSTATUS(status)) {
    case 0: return OK;
    case EBUSY: return IN_USE;
    case ENOSPC: return INSUFFICIENT_RESOURCES;
    case EOPNOTSUPP: return NOT_SUPPORTED;
    case EINVAL: return INVALID_ARGUMENT;
    case ENOENT: return NOT_FOUND;
    default: return UNKNOWN;
    }
}

API ret_t nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) {
    DEVICE(h); NEED(now); NEED(later);
    if (!S->mig) return NOT_SUPPORTED;
    *now = (unsigned)G->mig;
    *later = (unsigned)G->mig_pending;
    return OK;
}
API ret_t nvmlDeviceSetMigMode(void *h, unsigned mode, ret_t *activation) {
    DEVICE(h); NEED(activation);
    if (mode > 1) return INVALID_ARGUMENT;
    ret_t r = mig(G, "mode", (int)mode, -1);
    *activation = r;
    return r == IN_USE ? OK : r;
}

/* NVML has no such function: nvidia-smi asks the real driver itself. */
API ret_t gpusmith_simulated_reset(void *h) { DEVICE(h); return mig(G, "reset", -1, -1); }

typedef struct { unsigned start, size; } placement;
typedef struct {
    unsigned id, p2p, slices, instances, sms, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mib;
} gi_profile;
typedef struct { unsigned id, slices, instances, sms, copy, decoder, encoder, jpeg, ofa; } ci_profile;
typedef struct { void *device; unsigned id, profile; placement at; } gi_info;
typedef struct { void *device, *gi; unsigned id, profile; placement at; } ci_info;
typedef struct { unsigned sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; unsigned long long memory_mib; } attributes;

/* The driver leaves some multiprocessors over, and gives media engines: that is not simulated. */
static unsigned sms_of(const sg_state *s, const sg_profile *p) { return (unsigned)(s->sms * p->compute / s->mig_compute); }
static void fill_profile(const sg_state *s, const sg_profile *p, gi_profile *out) {
    *out = (gi_profile){.id = (unsigned)p->id, .slices = (unsigned)p->compute, .instances = (unsigned)p->most, .sms = sms_of(s, p),
                        .copy = (unsigned)p->compute, .memory_mib = sg_memory_of(s, p)};
}
API ret_t nvmlDeviceGetGpuInstanceProfileInfo(void *h, unsigned profile, gi_profile *out) {
    DEVICE(h); NEED(out);
    if (profile > 0x10) return INVALID_ARGUMENT;
    for (int i = 0; i < S->profiles; i++) {
        if ((unsigned)S->profile[i].nvml != profile) continue;
        fill_profile(S, &S->profile[i], out);
        return OK;
    }
    return NOT_SUPPORTED;
}
/* Version 2 has everything of version 1, version 3 capabilities behind it in place of what it says of peers. */
API ret_t nvmlDeviceGetGpuInstanceProfileInfoV(void *h, unsigned profile, void *out) {
    DEVICE(h); NEED(out);
    unsigned version = *(unsigned *)out, *number = out;
    gi_profile plain;
    if (version != (2u << 24 | 152) && version != (3u << 24 | 152)) return INVALID_ARGUMENT;
    if (!G->mig) return NOT_SUPPORTED;
    ret_t r = nvmlDeviceGetGpuInstanceProfileInfo(h, profile, &plain);
    if (r) return r;
    int three = version >> 24 == 3;
    memset(number + 1, 0, 148);
    number[1] = plain.id;
    memcpy(number + (three ? 2 : 3), &plain.slices, 8 * sizeof *number);
    memcpy(number + (three ? 10 : 12), &plain.memory_mib, sizeof plain.memory_mib);
    snprintf((char *)(number + (three ? 12 : 14)), 96, "MIG %s", sg_profile_of(S, (int)plain.id)->name);
    return OK;
}
API ret_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *h, unsigned id, placement *out, unsigned *count) {
    DEVICE(h); NEED(count);
    const sg_profile *p = sg_profile_of(S, (int)id);
    NEED(p);
    *count = (unsigned)p->starts;
    for (int i = 0; out && i < p->starts; i++) out[i] = (placement){(unsigned)p->start[i], (unsigned)p->memory};
    return OK;
}

static ret_t create(void *h, unsigned id, int start, void **out) {
    DEVICE(h); NEED(out);
    if (!G->mig) return NOT_SUPPORTED;
    NEED(sg_profile_of(S, (int)id));
    unsigned before = 0;
    for (int gi = 0; gi < SG_GPU_INSTANCES; gi++) before |= (instance_of(S, G, gi) != NULL) << gi;
    ret_t r = mig(G, "create", (int)id, start);
    if (r || (r = look(S))) return r;
    G = find(S, D);
    for (int gi = 0; G && gi < SG_GPU_INSTANCES; gi++) {
        if (before >> gi & 1 || !instance_of(S, G, gi)) continue;
        *out = handle_of(D, gi, GPU_INSTANCE);
        return OK;
    }
    return UNKNOWN;
}
API ret_t nvmlDeviceCreateGpuInstance(void *h, unsigned id, void **out) { return create(h, id, -1, out); }
API ret_t nvmlDeviceCreateGpuInstanceWithPlacement(void *h, unsigned id, const placement *at, void **out) {
    DEVICE(h); NEED(at);
    const sg_profile *p = sg_profile_of(S, (int)id);
    return p && at->size == (unsigned)p->memory && at->start < 1024 ? create(h, id, (int)at->start, out) : G->mig ? INVALID_ARGUMENT : NOT_SUPPORTED;
}
API ret_t nvmlGpuInstanceDestroy(void *h) { INSTANCE(h, GPU_INSTANCE); return mig(G, "destroy", I->gi, -1); }
/* Who may see all instances, his own or not. */
#define MONITOR(gpu) do { \
    if (!(gpu)->mig) return NOT_SUPPORTED; \
    if (sg_granted("/dev/nvidia-caps/nvidia-cap2", O_RDONLY)) return NO_PERMISSION; } while (0)
API ret_t nvmlDeviceGetGpuInstances(void *h, unsigned id, void **out, unsigned *count) {
    DEVICE(h); NEED(out); NEED(count);
    MONITOR(G);
    NEED(sg_profile_of(S, (int)id));
    *count = 0;
    for (int gi = 0; gi < SG_GPU_INSTANCES; gi++) {
        const sg_instance *row = instance_of(S, G, gi);
        if (row && row->profile == (int)id) out[(*count)++] = handle_of(D, gi, GPU_INSTANCE);
    }
    return OK;
}
API ret_t nvmlDeviceGetGpuInstanceById(void *h, unsigned id, void **out) {
    DEVICE(h); NEED(out);
    MONITOR(G);
    if (id >= SG_GPU_INSTANCES || !instance_of(S, G, (int)id)) return NOT_FOUND;
    *out = handle_of(D, (int)id, GPU_INSTANCE);
    return OK;
}
API ret_t nvmlGpuInstanceGetInfo(void *h, gi_info *out) {
    INSTANCE(h, GPU_INSTANCE); NEED(out);
    *out = (gi_info){D, (unsigned)I->gi, (unsigned)I->profile, {(unsigned)I->start, (unsigned)I->size}};
    return OK;
}

/* Profiles of compute instances have their number in nvml.h as their ID, as on an A100. */
static unsigned ci_id(const sg_profile *p) { return p->compute == 7 ? 4 : p->compute == 8 ? 5 : (unsigned)p->compute - (p->compute < 6); }
API ret_t nvmlGpuInstanceGetComputeInstanceProfileInfo(void *h, unsigned profile, unsigned engines, ci_profile *out) {
    INSTANCE(h, GPU_INSTANCE); NEED(out);
    if (profile > 7 || engines) return INVALID_ARGUMENT;
    if (profile != ci_id(P)) return NOT_SUPPORTED;
    *out = (ci_profile){.id = profile, .slices = (unsigned)P->compute, .instances = 1, .sms = sms_of(S, P), .copy = (unsigned)P->compute};
    return OK;
}
API ret_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *h, unsigned profile, unsigned engines, void *out) {
    INSTANCE(h, GPU_INSTANCE); NEED(out);
    unsigned *number = out;
    if (*number != (2u << 24 | 136) && *number != (3u << 24 | 140)) return INVALID_ARGUMENT;
    ret_t r = nvmlGpuInstanceGetComputeInstanceProfileInfo(h, profile, engines, (ci_profile *)(number + 1));
    if (r) return r;
    memset(number + 10, 0, (*number & 0xffffff) - 40);
    snprintf((char *)(number + 10), 96, "MIG %s", P->name);
    return OK;
}
API ret_t nvmlGpuInstanceCreateComputeInstance(void *h, unsigned id, void **out) {
    INSTANCE(h, GPU_INSTANCE); NEED(out);
    if (id != ci_id(P)) return NOT_SUPPORTED;
    ret_t r = mig(G, "create-compute", I->gi, -1);
    if (!r) *out = handle_of(D, I->gi, COMPUTE_INSTANCE);
    return r;
}
API ret_t nvmlComputeInstanceDestroy(void *h) { INSTANCE(h, COMPUTE_INSTANCE); return mig(G, "destroy-compute", I->gi, -1); }
API ret_t nvmlGpuInstanceGetComputeInstances(void *h, unsigned id, void **out, unsigned *count) {
    INSTANCE(h, GPU_INSTANCE); NEED(out); NEED(count);
    *count = I->compute && id == ci_id(P);
    if (*count) *out = handle_of(D, I->gi, COMPUTE_INSTANCE);
    return OK;
}
API ret_t nvmlGpuInstanceGetComputeInstanceById(void *h, unsigned id, void **out) {
    INSTANCE(h, GPU_INSTANCE); NEED(out);
    if (id || !I->compute) return NOT_FOUND;
    *out = handle_of(D, I->gi, COMPUTE_INSTANCE);
    return OK;
}
API ret_t nvmlComputeInstanceGetInfo_v2(void *h, ci_info *out) {
    INSTANCE(h, COMPUTE_INSTANCE); NEED(out);
    *out = (ci_info){D, handle_of(D, I->gi, GPU_INSTANCE), 0, ci_id(P), {0, (unsigned)P->compute}};
    return OK;
}

NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, S->mig_instances)
API ret_t nvmlDeviceIsMigDeviceHandle(void *h, unsigned *out) {
    NEED(out);
    *out = (unsigned)is_mig(h);
    if (*out) return OK;
    KNOWN(h);
    (void)D;
    return OK;
}
API ret_t nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned index, void **out) {
    DEVICE(h);
    return !S->mig ? NOT_SUPPORTED : G->mig ? mig_handle(D, index, NULL, out) : NOT_FOUND;
}
API ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *h, void **out) { INSTANCE(h, MIG_DEVICE); NEED(out); *out = D; return OK; }
API ret_t nvmlDeviceGetGpuInstanceId(void *h, unsigned *out) { INSTANCE(h, MIG_DEVICE); NEED(out); *out = (unsigned)I->gi; return OK; }
API ret_t nvmlDeviceGetComputeInstanceId(void *h, unsigned *out) { INSTANCE(h, MIG_DEVICE); NEED(out); *out = 0; return OK; }
API ret_t nvmlDeviceGetAttributes_v2(void *h, attributes *out) {
    if (check(h)) return NOT_SUPPORTED; /* of a whole GPU */
    INSTANCE(h, MIG_DEVICE); NEED(out);
    unsigned slices = (unsigned)P->compute;
    *out = (attributes){.sms = sms_of(S, P), .copy = slices, .gi_slices = slices, .ci_slices = slices, .memory_mib = sg_memory_of(S, P)};
    return OK;
}

/* --- events --------------------------------------------------------------------------------------------- */

typedef struct { long seen; unsigned long long types[SG_MAX_GPUS]; } event_set;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } event_data;
#define XID_EVENT 8ull

API ret_t nvmlEventSetCreate(event_set **out) {
    sg_state s;
    ret_t r = look(&s);
    if (r) return r;
    NEED(out);
    *out = calloc(1, sizeof **out);
    if (!*out) return MEMORY;
    (*out)->seen = s.event_seq;
    return OK;
}
API ret_t nvmlEventSetFree(event_set *set) { NEED(set); free(set); return OK; }
NUMBER(nvmlDeviceGetSupportedEventTypes, unsigned long long, 0x1 | 0x2 | XID_EVENT | 0x10)
API ret_t nvmlDeviceRegisterEvents(void *h, unsigned long long types, event_set *set) {
    DEVICE(h); NEED(set);
    if (types & ~(0x1 | 0x2 | XID_EVENT | 0x10)) return NOT_SUPPORTED;
    set->types[D->index] |= types;
    return OK;
}
API ret_t nvmlEventSetWait_v2(event_set *set, event_data *out, unsigned timeout_ms) {
    sg_state s;
    NEED(set); NEED(out);
    for (unsigned waited = 0;; waited += 100) {
        ret_t r = look(&s);
        if (r) return r;
        if (s.event_seq < set->seen) set->seen = 0; /* the module was loaded anew */
        for (int i = 0; i < s.xids; i++) {
            if (s.xid[i].seq <= set->seen) continue;
            set->seen = s.xid[i].seq;
            for (int k = 0; k < devices; k++) {
                if (device_table[k].minor != s.xid[i].minor || !(set->types[k] & XID_EVENT)) continue;
                *out = (event_data){&device_table[k], XID_EVENT, (unsigned long long)s.xid[i].code, 0xffffffff, 0xffffffff};
                return OK;
            }
        }
        if (waited >= timeout_ms) return TIMEOUT;
        usleep(1000 * (timeout_ms - waited < 100 ? timeout_ms - waited : 100));
    }
}
API ret_t nvmlEventSetWait(event_set *set, event_data *out, unsigned timeout_ms) {
    event_data full;
    NEED(out);
    ret_t r = nvmlEventSetWait_v2(set, &full, timeout_ms);
    if (!r) memcpy(out, &full, 24); /* the old structure ends before the instance ids */
    return r;
}

/* --- field values --------------------------------------------------------------------------------------- */

typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    int type;
    ret_t result;
    union { double d; unsigned ui; unsigned long long ull; } value;
} field_value;

API ret_t nvmlDeviceGetFieldValues(void *h, int count, field_value *values) {
    DEVICE(h); NEED(values);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        field_value *v = &values[i];
        v->timestamp = now.tv_sec * 1000000ll + now.tv_nsec / 1000;
        v->latency = 0;
        v->type = 1;
        v->result = OK;
        v->value.ull = 0;
        switch (v->id) {
        case 1: case 2: v->value.ui = 1; break;                                     /* ECC now, pending */
        case 3: case 5: v->type = 3; break;                                         /* single bit, volatile, aggregate */
        case 4: v->type = 3; v->value.ull = (unsigned long long)G->ecc; break;      /* double bit, volatile */
        case 6: v->type = 3; v->value.ull = (unsigned long long)G->ecc_total; break;
        case 91: v->value.ui = (unsigned)S->nvlinks; break;                         /* NVLink links */
        case 164:                                                                   /* raw rate of a link, MB/s */
            if (!S->nvlinks) v->result = NOT_SUPPORTED;
            else if (v->scope >= (unsigned)S->nvlinks) v->result = INVALID_ARGUMENT;
            else v->value.ui = S->arch < 9 ? 25781 : S->arch == 9 ? 26562 : 53125;
            break;
        default: v->result = NOT_SUPPORTED;
        }
    }
    return OK;
}

/* --- not simulated: said so ------------------------------------------------------------------------------ */

#define REFUSE(function) API ret_t function(void *h) { if (!users) return UNINITIALIZED; return check(h) ? NOT_SUPPORTED : INVALID_ARGUMENT; }
REFUSE(nvmlDeviceGetAttributes) REFUSE(nvmlDeviceGetGpuInstanceRemainingCapacity)
REFUSE(nvmlDeviceSetEccMode) REFUSE(nvmlDeviceClearEccErrorCounts)
REFUSE(nvmlDeviceGetApplicationsClock) REFUSE(nvmlDeviceGetDefaultApplicationsClock) REFUSE(nvmlDeviceGetClock)
REFUSE(nvmlDeviceGetSupportedMemoryClocks) REFUSE(nvmlDeviceGetSupportedGraphicsClocks) REFUSE(nvmlDeviceGetFanSpeed)
REFUSE(nvmlDeviceGetFanSpeed_v2) REFUSE(nvmlDeviceGetNumFans) REFUSE(nvmlDeviceGetEncoderUtilization)
REFUSE(nvmlDeviceGetDecoderUtilization) REFUSE(nvmlDeviceGetEncoderStats) REFUSE(nvmlDeviceGetEncoderSessions)
REFUSE(nvmlDeviceGetFBCStats) REFUSE(nvmlDeviceGetPcieThroughput)
REFUSE(nvmlDeviceGetInforomImageVersion) REFUSE(nvmlDeviceGetInforomVersion) REFUSE(nvmlDeviceGetInforomConfigurationChecksum)
REFUSE(nvmlDeviceGetDriverModel) REFUSE(nvmlDeviceGetDriverModel_v2) REFUSE(nvmlDeviceGetAccountingMode) REFUSE(nvmlDeviceGetAccountingPids)
REFUSE(nvmlDeviceGetProcessUtilization) REFUSE(nvmlDeviceGetSamples) REFUSE(nvmlDeviceGetViolationStatus)
REFUSE(nvmlDeviceGetMemoryAffinity) REFUSE(nvmlDeviceGetCpuAffinityWithinScope) REFUSE(nvmlDeviceGetGpuOperationMode)
REFUSE(nvmlDeviceGetBridgeChipInfo) REFUSE(nvmlDeviceGetAddressingMode) REFUSE(nvmlDeviceGetC2cModeInfoV)
REFUSE(nvmlDeviceGetConfComputeMemSizeInfo) REFUSE(nvmlDeviceGetRunningProcessDetailList) REFUSE(nvmlDeviceGetThermalSettings)
REFUSE(nvmlDeviceGetDynamicPstatesInfo) REFUSE(nvmlDeviceGetNvLinkUtilizationCounter) REFUSE(nvmlDeviceGetVgpuMetadata)
REFUSE(nvmlDeviceGetSupportedVgpus) REFUSE(nvmlDeviceGetActiveVgpus) REFUSE(nvmlDeviceGetPlatformInfo) REFUSE(nvmlDeviceGetModuleId)
REFUSE(nvmlDeviceGetMarginTemperature) REFUSE(nvmlDeviceGetEccModeV) REFUSE(nvmlDeviceGetAPIRestriction)
API ret_t nvmlSystemGetConfComputeState(void *out) { (void)out; return NOT_SUPPORTED; }
API ret_t nvmlSystemGetConfComputeSettings(void *out) { (void)out; return NOT_SUPPORTED; }
