/*
 * libcuda.so of the simulated driver (gpusmith lab): finds, allocates and copies, launches nothing.
 *
 * Device memory is host memory. cuLaunchKernel always answers CUDA_ERROR_NOT_SUPPORTED: a program that wants a result
 * has to compute it elsewhere and say so. Functions that are not here are missing symbols, not false successes.
 */
#include "state.h"

#define API __attribute__((visibility("default")))
typedef int result;
typedef unsigned long long devptr;
enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, DEVICE_UNAVAILABLE = 46, INVALID_HANDLE = 400, NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801, SYSTEM_NOT_READY = 802, SYSTEM_DRIVER_MISMATCH = 803, MPS_RPC_FAILURE = 806, UNKNOWN = 999
};

/* Second witness of a simulation: validation looks for this symbol. */
API const char gpusmith_simulated[] = "gpusmith simulated GPU, driver " DRIVER_VERSION;

typedef struct { int ordinal, primary, references; } context;
typedef struct block { devptr start; size_t size; int ordinal; struct block *next; } block;
typedef struct function { char name[128]; struct function *next; } function;
typedef struct module { int magic; function *functions; } module;
#define MODULE_MAGIC 0x53494d4d
#define STACK 16

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int ready, live = -1, mps = -1, devices, fds[SG_MAX_GPUS + 2];
static size_t limit_mib[SG_MAX_GPUS]; /* of a client of MPS, by GPU; 0: none */
static char uuids[SG_MAX_GPUS][48], parents[SG_MAX_GPUS][48];
static int instance_fds[2];
static context primary[SG_MAX_GPUS];
static size_t allocated[SG_MAX_GPUS];
static block *blocks;
static __thread context *stack[STACK];
static __thread int depth;

/* --- start -------------------------------------------------------------------------------------------- */

/* A GPU, or an instance of one. */
typedef struct { const sg_gpu *gpu; const sg_instance *instance; } granted_device;
static const char *uuid_of(const granted_device *d) { return d->instance ? d->instance->uuid : d->gpu->uuid; }

static int visible(const granted_device *granted, int count, granted_device *order) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int chosen = 0;
    if (!list) {
        for (int i = 0; i < count; i++) order[i] = granted[i];
        return count;
    }
    char copy[1024], *save = NULL;
    sg_copy(copy, sizeof copy, list);
    /* The first entry that names nothing ends the list, as in the CUDA programming guide. */
    for (char *item = strtok_r(copy, ",", &save); item && chosen < count; item = strtok_r(NULL, ",", &save)) {
        while (*item == ' ') item++;
        const granted_device *found = NULL;
        if (*item >= '0' && *item <= '9') {
            long index = sg_number(item);
            if (index < count) found = &granted[index];
        } else if (!strncmp(item, "GPU-", 4) || !strncmp(item, "MIG-", 4)) {
            for (int i = 0; i < count; i++) {
                if (!strncmp(uuid_of(&granted[i]), item, strlen(item))) found = &granted[i];
            }
        }
        if (!found) break;
        for (int i = 0; i < chosen; i++) if (!strcmp(uuid_of(&order[i]), uuid_of(found))) return 0; /* named twice: none is visible */
        order[chosen++] = *found;
    }
    return chosen;
}

/* Where there are instances, a program gets the first of them, and nothing else (MIG user guide, "CUDA Device Enumeration"). */
static int enumerated(granted_device *order, int count) {
    for (int i = 0; i < count; i++) {
        if (!order[i].instance) continue;
        order[0] = order[i];
        return 1;
    }
    return count;
}

/*
 * Become a client of MPS, if its control daemon answers: for as long as the connection is there. It answers when a server runs,
 * with INDEX:MiB for each GPU whose memory it limits. Where there is no daemon, a program goes on without MPS.
 */
static void join_mps(void) {
    char answer[512], *save = NULL;
    size_t got = 0;
    if ((mps = sg_mps_connect()) < 0) return;
    if (send(mps, "client\n", 7, MSG_NOSIGNAL) != 7) goto none;
    while (got < sizeof answer - 1) {
        ssize_t more = read(mps, answer + got, sizeof answer - 1 - got);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) goto none;
        got += (size_t)more;
        if (answer[got - 1] == '\n') break;
    }
    answer[got - 1] = 0;
    if (strncmp(answer, "served", 6)) goto none;
    for (char *item = strtok_r(answer + 6, " ", &save); item; item = strtok_r(NULL, " ", &save)) {
        const char *mib = strchr(item, ':');
        long index = sg_number(item);
        if (mib && index >= 0 && index < SG_MAX_GPUS) limit_mib[index] = (size_t)sg_number(mib + 1);
    }
    return;
none:
    close(mps);
    mps = -1;
}

/* A client's daemon and server are gone: its work is lost. */
static int left_alone(void) {
    char nothing;
    return mps >= 0 && !recv(mps, &nothing, 1, MSG_PEEK | MSG_DONTWAIT);
}

static result begin(void) {
    sg_state *state = malloc(sizeof *state);
    result answer = OK;
    granted_device granted[SG_MAX_GPUS * SG_GPU_INSTANCES], order[SG_MAX_GPUS * SG_GPU_INSTANCES];
    int count = 0;
    if (!state) return OUT_OF_MEMORY;
    live = sg_open(O_RDONLY);
    if (live < 0 || sg_read(live, state)) { answer = NO_DEVICE; goto out; }
    if (!state->loaded) {
        sg_modprobe(0);
        if (sg_read(live, state) || !state->loaded) { answer = NO_DEVICE; goto out; }
    }
    if (strcmp(state->version, DRIVER_VERSION)) { answer = SYSTEM_DRIVER_MISMATCH; goto out; }
    int denied = sg_device("/dev/nvidiactl");
    if (denied) { answer = denied == ENOENT ? NO_DEVICE : UNKNOWN; goto out; }
    /* CUDA needs unified memory; its module is loaded on demand, where that is allowed. */
    if (!state->uvm || sg_device("/dev/nvidia-uvm")) {
        const char *tool = sg_path("/usr/bin/nvidia-modprobe");
        const char *const words[] = {tool, "-c=0", "-u", NULL};
        if (!geteuid() && !access(tool, X_OK)) sg_run(words);
        if (sg_read(live, state) || !state->uvm || sg_device("/dev/nvidia-uvm")) { answer = UNKNOWN; goto out; }
    }
    for (int i = 0; i < state->gpus; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/nvidia%d", state->gpu[i].minor);
        if (sg_device(path) || state->gpu[i].lost) continue;
        const sg_instance *seen[SG_GPU_INSTANCES];
        int instances = state->gpu[i].mig ? sg_instances(state, state->gpu[i].minor, seen) : 0;
        for (int k = 0; k < instances; k++) granted[count++] = (granted_device){&state->gpu[i], seen[k]};
        if (!state->gpu[i].mig) granted[count++] = (granted_device){&state->gpu[i], NULL};
    }
    if (!count) { answer = NO_DEVICE; goto out; }
    if (state->fabric_needed && sg_fabric(live, state) != 3) { answer = SYSTEM_NOT_READY; goto out; }
#ifdef CUDA_INIT_FAILS /* a version of the repository cuda-broken */
    answer = CUDA_INIT_FAILS;
    goto out;
#endif
    devices = enumerated(order, visible(granted, count, order));
    if (!devices) { answer = NO_DEVICE; goto out; }
    if (sg_hold(live, SG_NVIDIA) || sg_hold(live, SG_UVM)) { answer = UNKNOWN; goto out; }
    for (int i = 0; i < devices; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/nvidia%d", order[i].gpu->minor);
        fds[i] = sg_show(path);
        for (int k = 0; k < 2 && order[i].instance; k++) {
            char capability[64];
            sg_capability(capability, order[i].instance, k);
            instance_fds[k] = sg_show(capability);
        }
        sg_copy(uuids[i], sizeof uuids[i], uuid_of(&order[i]));
        sg_copy(parents[i], sizeof parents[i], order[i].gpu->uuid);
        primary[i] = (context){.ordinal = i, .primary = 1};
    }
    fds[devices] = sg_show("/dev/nvidiactl");
    fds[devices + 1] = sg_show("/dev/nvidia-uvm");
    join_mps();
    ready = 1;
out:
    if (answer && live >= 0) { close(live); live = -1; devices = 0; }
    free(state);
    return answer;
}

API result cuInit(unsigned flags) {
    if (flags) return INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    result answer = ready ? OK : begin();
    pthread_mutex_unlock(&mutex);
    return answer;
}

API result cuDriverGetVersion(int *version) {
    if (!version) return INVALID_VALUE;
    *version = CUDA_VERSION;
    return OK;
}

/* The state becomes that of a device which is as large as an instance. */
static void shrink(sg_state *state, const char *uuid) {
    for (int i = 0; i < state->instances; i++) {
        const sg_profile *profile = sg_profile_of(state, state->instance[i].profile);
        if (strcmp(state->instance[i].uuid, uuid)) continue;
        state->memory_mib = (int)sg_memory_of(state, profile);
        state->sms = state->sms * profile->compute / state->mig_compute;
        size_t used = strlen(state->name);
        snprintf(state->name + used, sizeof state->name - used, " MIG %s", profile->name);
    }
}

/* State, and the row of one device in it. */
static result look(int ordinal, sg_state *state, sg_gpu **gpu) {
    if (!ready) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= devices) return INVALID_DEVICE;
    if (left_alone()) return MPS_RPC_FAILURE;
    if (sg_read(live, state) || !state->loaded) return DEVICE_UNAVAILABLE;
    for (int i = 0; i < state->gpus; i++) {
        if (strcmp(state->gpu[i].uuid, parents[ordinal])) continue;
        *gpu = &state->gpu[i];
        shrink(state, uuids[ordinal]);
        return state->gpu[i].lost ? DEVICE_UNAVAILABLE : OK;
    }
    return DEVICE_UNAVAILABLE;
}
#define DEVICE(n)                       \
    sg_state S;                         \
    sg_gpu *G = NULL;                   \
    result seen_ = look(n, &S, &G);     \
    if (seen_) return seen_;            \
    (void)G

/* --- devices ------------------------------------------------------------------------------------------ */

API result cuDeviceGetCount(int *count) {
    if (!ready) return NOT_INITIALIZED;
    if (!count) return INVALID_VALUE;
    *count = devices;
    return OK;
}
API result cuDeviceGet(int *device, int ordinal) {
    if (!ready) return NOT_INITIALIZED;
    if (!device) return INVALID_VALUE;
    if (ordinal < 0 || ordinal >= devices) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}
API result cuDeviceGetName(char *name, int size, int device) {
    DEVICE(device);
    if (!name || size <= 0) return INVALID_VALUE;
    sg_copy(name, (size_t)size, S.name);
    return OK;
}
API result cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    DEVICE(device);
    if (!uuid) return INVALID_VALUE;
    const char *text = uuids[device] + 4; /* GPU- or MIG- */
    for (int i = 0; i < 16; i++, text += 2) {
        if (*text == '-') text++;
        uuid[i] = (unsigned char)sg_hex(text, 2);
    }
    return OK;
}
API result cuDeviceGetUuid(unsigned char uuid[16], int device) { return cuDeviceGetUuid_v2(uuid, device); }
API result cuDeviceTotalMem_v2(size_t *bytes, int device) {
    DEVICE(device);
    if (!bytes) return INVALID_VALUE;
    *bytes = (size_t)S.memory_mib << 20;
    return OK;
}
API result cuDeviceTotalMem(unsigned *bytes, int device) {
    size_t all;
    result answer = cuDeviceTotalMem_v2(&all, device);
    if (!answer) *bytes = all > 0xffffffffu ? 0xffffffffu : (unsigned)all;
    return answer;
}
API result cuDeviceComputeCapability(int *major, int *minor, int device) {
    DEVICE(device);
    if (!major || !minor) return INVALID_VALUE;
    *major = S.cc_major;
    *minor = S.cc_minor;
    return OK;
}
API result cuDeviceGetPCIBusId(char *out, int size, int device) {
    DEVICE(device);
    if (!out || size < 13) return INVALID_VALUE;
    sg_copy(out, (size_t)size, G->pci);
    return OK;
}
API result cuDeviceGetByPCIBusId(int *device, const char *bus) {
    if (!ready) return NOT_INITIALIZED;
    if (!device || !bus) return INVALID_VALUE;
    for (int i = 0; i < devices; i++) {
        sg_state state;
        sg_gpu *gpu = NULL;
        if (!look(i, &state, &gpu) && strstr(gpu->pci, bus)) { *device = i; return OK; }
    }
    return INVALID_DEVICE;
}
API result cuDeviceGetAttribute(int *value, int attribute, int device) {
    DEVICE(device);
    if (!value) return INVALID_VALUE;
    switch (attribute) {
    case 1: *value = 1024; break;                                 /* threads per block */
    case 2: case 3: *value = 1024; break;                         /* block x, y */
    case 4: *value = 64; break;                                   /* block z */
    case 5: *value = 0x7fffffff; break;                           /* grid x */
    case 6: case 7: *value = 65535; break;                        /* grid y, z */
    case 8: *value = 49152; break;                                /* shared memory per block */
    case 9: *value = 65536; break;                                /* constant memory */
    case 10: *value = 32; break;                                  /* warp */
    case 12: *value = 65536; break;                               /* registers per block */
    case 13: *value = 1980000; break;                             /* clock, kHz */
    case 16: *value = S.sms; break;
    case 17: case 18: *value = 0; break;                          /* kernel timeout; integrated */
    case 19: *value = 1; break;                                   /* can map host memory */
    case 20: *value = G->compute_mode; break;
    case 31: *value = 1; break;                                   /* concurrent kernels */
    case 32: *value = 1; break;                                   /* ECC */
    case 33: *value = (int)sg_hex(G->pci + 5, 2); break;          /* PCI bus */
    case 34: *value = (int)sg_hex(G->pci + 8, 2); break;          /* PCI device */
    case 39: *value = 2048; break;                                /* threads per multiprocessor */
    case 41: *value = 1; break;                                   /* unified addressing */
    case 50: *value = (int)sg_hex(G->pci, 4); break;              /* PCI domain */
    case 75: *value = S.cc_major; break;
    case 76: *value = S.cc_minor; break;
    case 83: *value = 1; break;                                   /* managed memory */
    case 84: *value = 0; break;                                   /* multi GPU board */
    default: *value = 0; return NOT_SUPPORTED;
    }
    return OK;
}
API result cuDeviceCanAccessPeer(int *value, int device, int peer) {
    DEVICE(device);
    if (!value || peer < 0 || peer >= devices) return INVALID_VALUE;
    *value = device != peer && S.nvlinks > 0;
    return OK;
}

/* --- contexts ----------------------------------------------------------------------------------------- */

/*
 * In mode EXCLUSIVE_PROCESS one process may have a GPU. Here that is always the server of MPS: who is no client of it has none,
 * also if there is no server. A real driver would let the first one have it.
 */
static result shut(const sg_gpu *gpu) {
    return gpu->compute_mode == SG_PROHIBITED || (gpu->compute_mode == SG_EXCLUSIVE_PROCESS && mps < 0) ? DEVICE_UNAVAILABLE : OK;
}

static context *current(void) { return depth ? stack[depth - 1] : NULL; }
static int known(const context *c) { return c && ready && c->ordinal >= 0 && c->ordinal < devices; }

API result cuCtxGetCurrent(context **out) { if (!ready) return NOT_INITIALIZED; if (!out) return INVALID_VALUE; *out = current(); return OK; }
API result cuCtxSetCurrent(context *c) {
    if (!ready) return NOT_INITIALIZED;
    if (!c) { if (depth) depth--; return OK; }
    if (!known(c)) return INVALID_CONTEXT;
    if (!depth) depth = 1;
    stack[depth - 1] = c;
    return OK;
}
API result cuCtxPushCurrent_v2(context *c) {
    if (!ready) return NOT_INITIALIZED;
    if (!known(c) || depth == STACK) return INVALID_CONTEXT;
    stack[depth++] = c;
    return OK;
}
API result cuCtxPopCurrent_v2(context **out) {
    if (!ready) return NOT_INITIALIZED;
    if (!depth) return INVALID_CONTEXT;
    context *c = stack[--depth];
    if (out) *out = c;
    return OK;
}
API result cuCtxCreate_v2(context **out, unsigned flags, int device) {
    (void)flags;
    DEVICE(device);
    if (!out) return INVALID_VALUE;
    if (shut(G)) return DEVICE_UNAVAILABLE;
    context *c = calloc(1, sizeof *c);
    if (!c) return OUT_OF_MEMORY;
    c->ordinal = device;
    c->references = 1;
    result answer = cuCtxPushCurrent_v2(c);
    if (answer) free(c); else *out = c;
    return answer;
}
API result cuCtxDestroy_v2(context *c) {
    if (!ready) return NOT_INITIALIZED;
    if (!known(c) || c->primary) return INVALID_CONTEXT;
    if (current() == c) depth--;
    c->ordinal = -1;
    free(c);
    return OK;
}
API result cuCtxGetDevice(int *device) {
    if (!ready) return NOT_INITIALIZED;
    if (!known(current())) return INVALID_CONTEXT;
    if (!device) return INVALID_VALUE;
    *device = current()->ordinal;
    return OK;
}
API result cuCtxGetApiVersion(context *c, unsigned *version) { (void)c; if (!version) return INVALID_VALUE; *version = CUDA_VERSION; return OK; }
API result cuDevicePrimaryCtxRetain(context **out, int device) {
    DEVICE(device);
    if (!out) return INVALID_VALUE;
    if (!primary[device].references && shut(G)) return DEVICE_UNAVAILABLE;
    primary[device].references++;
    *out = &primary[device];
    return OK;
}
API result cuDevicePrimaryCtxRelease_v2(int device) {
    if (!ready) return NOT_INITIALIZED;
    if (device < 0 || device >= devices) return INVALID_DEVICE;
    if (!primary[device].references) return INVALID_CONTEXT;
    primary[device].references--;
    return OK;
}
API result cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
API result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    if (!ready) return NOT_INITIALIZED;
    if (device < 0 || device >= devices) return INVALID_DEVICE;
    if (!flags || !active) return INVALID_VALUE;
    *flags = 0;
    *active = primary[device].references > 0;
    return OK;
}
#define CONTEXT                                        \
    if (!ready) return NOT_INITIALIZED;                \
    if (!known(current())) return INVALID_CONTEXT;     \
    DEVICE(current()->ordinal)
API result cuCtxSynchronize(void) { CONTEXT; return OK; }

/* --- memory ------------------------------------------------------------------------------------------- */

static block *find(devptr at, size_t size) {
    for (block *b = blocks; b; b = b->next) {
        if (at >= b->start && at + size <= b->start + b->size && at + size >= at) return b;
    }
    return NULL;
}
API result cuMemAlloc_v2(devptr *out, size_t size) {
    CONTEXT;
    if (!out || !size) return INVALID_VALUE;
    int ordinal = current()->ordinal;
    pthread_mutex_lock(&mutex);
    result answer = OUT_OF_MEMORY;
    size_t limit = limit_mib[G - S.gpu] ? limit_mib[G - S.gpu] : (size_t)S.memory_mib;
    if (allocated[ordinal] + size <= limit << 20) {
        block *b = malloc(sizeof *b);
        void *memory = b ? malloc(size) : NULL; /* pages appear when they are written, so large requests are cheap */
        if (memory) {
            *b = (block){(devptr)(uintptr_t)memory, size, ordinal, blocks};
            blocks = b;
            allocated[ordinal] += size;
            *out = b->start;
            answer = OK;
        } else {
            free(b);
        }
    }
    pthread_mutex_unlock(&mutex);
    return answer;
}
API result cuMemFree_v2(devptr at) {
    if (!ready) return NOT_INITIALIZED;
    if (!at) return OK;
    result answer = INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    for (block **b = &blocks; *b; b = &(*b)->next) {
        if ((*b)->start != at) continue;
        block *gone = *b;
        *b = gone->next;
        allocated[gone->ordinal] -= gone->size;
        free((void *)(uintptr_t)gone->start);
        free(gone);
        answer = OK;
        break;
    }
    pthread_mutex_unlock(&mutex);
    return answer;
}
static result copy(void *to, const void *from, size_t size, devptr check1, devptr check2) {
    CONTEXT;
    result answer = OK;
    pthread_mutex_lock(&mutex);
    if ((check1 && !find(check1, size)) || (check2 && !find(check2, size))) answer = INVALID_VALUE;
    else memmove(to, from, size);
    pthread_mutex_unlock(&mutex);
    return answer;
}
API result cuMemcpyHtoD_v2(devptr to, const void *from, size_t size) { return to && from ? copy((void *)(uintptr_t)to, from, size, to, 0) : INVALID_VALUE; }
API result cuMemcpyDtoH_v2(void *to, devptr from, size_t size) { return to && from ? copy(to, (void *)(uintptr_t)from, size, from, 0) : INVALID_VALUE; }
API result cuMemcpyDtoD_v2(devptr to, devptr from, size_t size) {
    return to && from ? copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size, to, from) : INVALID_VALUE;
}
API result cuMemsetD8_v2(devptr to, unsigned char value, size_t count) {
    CONTEXT;
    if (!find(to, count)) return INVALID_VALUE;
    memset((void *)(uintptr_t)to, value, count);
    return OK;
}
API result cuMemsetD32_v2(devptr to, unsigned value, size_t count) {
    CONTEXT;
    if (count > (size_t)1 << 60 || !find(to, count * 4)) return INVALID_VALUE;
    for (size_t i = 0; i < count; i++) memcpy((char *)(uintptr_t)to + 4 * i, &value, 4);
    return OK;
}
API result cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CONTEXT;
    if (!free_bytes || !total) return INVALID_VALUE;
    *total = (size_t)S.memory_mib << 20;
    *free_bytes = *total - allocated[current()->ordinal];
    return OK;
}

/* --- modules and launches ------------------------------------------------------------------------------ */

static result new_module(module **out, const void *image) {
    CONTEXT;
    if (!out || !image) return INVALID_VALUE;
    module *m = calloc(1, sizeof *m);
    if (!m) return OUT_OF_MEMORY;
    m->magic = MODULE_MAGIC;
    *out = m;
    return OK;
}
API result cuModuleLoadData(module **out, const void *image) { return new_module(out, image); }
API result cuModuleLoadDataEx(module **out, const void *image, unsigned count, int *options, void **values) {
    (void)count; (void)options; (void)values;
    return new_module(out, image);
}
API result cuModuleGetFunction(function **out, module *m, const char *name) {
    CONTEXT;
    if (!out || !name) return INVALID_VALUE;
    if (!m || m->magic != MODULE_MAGIC) return INVALID_HANDLE;
    function *f = calloc(1, sizeof *f);
    if (!f) return OUT_OF_MEMORY;
    sg_copy(f->name, sizeof f->name, name);
    f->next = m->functions;
    m->functions = f;
    *out = f;
    return OK;
}
API result cuModuleUnload(module *m) {
    if (!ready) return NOT_INITIALIZED;
    if (!m || m->magic != MODULE_MAGIC) return INVALID_HANDLE;
    for (function *f = m->functions, *next; f; f = next) { next = f->next; free(f); }
    m->magic = 0;
    free(m);
    return OK;
}
API result cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra) {
    (void)f; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)stream; (void)parameters; (void)extra;
    CONTEXT;
    return NOT_SUPPORTED; /* there is no GPU: never a success */
}

/* --- errors and entry points ---------------------------------------------------------------------------- */

static const struct { int code; const char *name, *text; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"}, {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}, {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {806, "CUDA_ERROR_MPS_RPC_FAILURE", "MPS server rpc error"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"}};

static result describe(int code, const char **out, int name) {
    if (!out) return INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == code) { *out = name ? errors[i].name : errors[i].text; return OK; }
    }
    return INVALID_VALUE;
}
API result cuGetErrorName(int code, const char **out) { return describe(code, out, 1); }
API result cuGetErrorString(int code, const char **out) { return describe(code, out, 0); }

typedef struct { const char *name; void *address; } entry;
extern const entry simgpu_entries[] __attribute__((visibility("hidden")));
API result cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status) {
    (void)version; (void)flags;
    if (!name || !out) return INVALID_VALUE;
    char versioned[128];
    snprintf(versioned, sizeof versioned, "%s_v2", name);
    *out = NULL;
    /* The newest form first: the plain names of most calls are those of CUDA before 3.2. */
    for (int turn = 0; turn < 2 && !*out; turn++) {
        for (size_t i = 0; simgpu_entries[i].name; i++) {
            if (!strcmp(simgpu_entries[i].name, turn ? name : versioned)) { *out = simgpu_entries[i].address; break; }
        }
    }
    if (status) *status = *out ? 0 : 1;
    return *out ? OK : NOT_FOUND;
}
API result cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, out, version, flags, NULL);
}

#define E(f) {#f, (void *)f}
const entry simgpu_entries[] = {
    E(cuInit), E(cuDriverGetVersion), E(cuDeviceGetCount), E(cuDeviceGet), E(cuDeviceGetName), E(cuDeviceGetUuid),
    E(cuDeviceGetUuid_v2), E(cuDeviceTotalMem_v2), E(cuDeviceComputeCapability), E(cuDeviceGetPCIBusId),
    E(cuDeviceGetByPCIBusId), E(cuDeviceGetAttribute), E(cuDeviceCanAccessPeer), E(cuCtxGetCurrent), E(cuCtxSetCurrent),
    E(cuCtxPushCurrent_v2), E(cuCtxPopCurrent_v2), E(cuCtxCreate_v2), E(cuCtxDestroy_v2), E(cuCtxGetDevice),
    E(cuCtxGetApiVersion), E(cuDevicePrimaryCtxRetain), E(cuDevicePrimaryCtxRelease_v2), E(cuDevicePrimaryCtxGetState),
    E(cuCtxSynchronize), E(cuMemAlloc_v2), E(cuMemFree_v2), E(cuMemcpyHtoD_v2), E(cuMemcpyDtoH_v2), E(cuMemcpyDtoD_v2),
    E(cuMemsetD8_v2), E(cuMemsetD32_v2), E(cuMemGetInfo_v2), E(cuModuleLoadData), E(cuModuleLoadDataEx),
    E(cuModuleGetFunction), E(cuModuleUnload), E(cuLaunchKernel), E(cuGetErrorName), E(cuGetErrorString),
    E(cuGetProcAddress), E(cuGetProcAddress_v2), {NULL, NULL}};
