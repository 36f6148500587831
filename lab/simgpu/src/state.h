/*
 * Live state of the simulated GPU hardware, as all simulated driver programs read it (gpusmith lab).
 *
 * The format is described in ../rootfs/usr/lib/simgpu/simgpu, which writes it. On a node it is /run/simgpu/live. In
 * a container it is the firmware file that NVIDIA's CDI generation mounts (glob nvidia/VERSION/gsp*.bin), which the
 * driver package ships as a link to the former: the same inode, so one fault is seen everywhere at once.
 *
 * Only old glibc symbols are used (no strtol, no sscanf: their names changed in glibc 2.38), so that a library that
 * was built on a newer system runs in older images.
 */
#ifndef SIMGPU_STATE_H
#define SIMGPU_STATE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef DRIVER_VERSION
#error "compile with -DDRIVER_VERSION='\"580.178.04\"'"
#endif

#define SG_SIZE 65536
#define SG_MAX_GPUS 16
#define SG_MAX_XIDS 64
#define SG_MAX_SWITCHES 8
#define SG_MAX_PROCESSES 32 /* of a GPU */
#define SG_MAX_PROFILES 32
#define SG_MAX_INSTANCES 64
#define SG_GPU_INSTANCES 15 /* IDs of GPU instances, for which the driver has minors */

/* Bytes of the live file whose shared locks are reference counts. */
enum { SG_NVIDIA = 0, SG_UVM = 1, SG_MODESET = 2, SG_DRM = 3, SG_PERSISTENCED = 8, SG_FABRICMANAGER = 9 };

/* Compute modes by their numbers in nvml.h and cuda.h. */
enum { SG_DEFAULT = 0, SG_PROHIBITED = 2, SG_EXCLUSIVE_PROCESS = 3 };

typedef struct {
    char pci[20], uuid[48], serial[32];
    int minor, numa, lost, ecc, ecc_total, remapped, pending, throttle, temp, power_mw, limit_mw, persistence, compute_mode;
    int util, used_mib, processes, mig, mig_pending;
    long energy_mj, energy_at_ms;
    struct { int pid, used_mib; } process[SG_MAX_PROCESSES];
} sg_gpu;

typedef struct {
    long seq, time;
    int minor, code;
} sg_xid;

/* A size of GPU instances (MIG): its number in nvml.h, its ID, its slices, how many there can be, and where each may start. */
typedef struct {
    int nvml, id, compute, memory, most, starts, start[SG_GPU_INSTANCES];
    char name[32];
} sg_profile;

/* A GPU instance: its GPU's minor, its ID, the profile's, its memory slices, and whether its compute instance is there. */
typedef struct {
    int minor, gi, profile, start, size, compute;
    char uuid[48];
} sg_instance;

typedef struct {
    char version[32], flavour[16], model[32], name[96];
    char switch_pci[SG_MAX_SWITCHES][20];
    int loaded, uvm, modeset;
    int arch, cc_major, cc_minor, memory_mib, power_w, sms, pcie_gen, pcie_width, pci_device, pci_subsystem;
    int mig, mig_instances, nvlinks, switches, fabric_needed, fabric_nvml, fabric, fabric_delay_ms, fabric_broken, switch_managers;
    long event_seq, pid_namespace;
    int mig_compute, mig_memory; /* slices of a GPU */
    int gpus, xids, profiles, instances;
    sg_gpu gpu[SG_MAX_GPUS];
    sg_xid xid[SG_MAX_XIDS];
    sg_profile profile[SG_MAX_PROFILES];
    sg_instance instance[SG_MAX_INSTANCES];
} sg_state;

#ifdef SIMGPU_TEST
/* Only in the build for unit tests: all paths below a folder of the test. */
static const char *sg_path(const char *path) {
    static __thread char buffer[4][512];
    static __thread int turn;
    const char *root = getenv("SIMGPU_TEST_ROOT");
    char *out = buffer[turn++ & 3];
    snprintf(out, 512, "%s%s", root ? root : "", path);
    return out;
}
#else
#define sg_path(path) (path)
#endif

static __attribute__((unused)) long sg_number(const char *text) {
    long value = 0, sign = 1;
    if (*text == '-') { sign = -1; text++; }
    while (*text >= '0' && *text <= '9') value = value * 10 + (*text++ - '0');
    return sign * value;
}

static __attribute__((unused)) long sg_hex(const char *text, int digits) {
    long value = 0;
    for (; digits-- > 0 && *text; text++) {
        int digit = *text >= '0' && *text <= '9' ? *text - '0' : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10
                  : *text >= 'A' && *text <= 'F' ? *text - 'A' + 10 : -1;
        if (digit < 0) break;
        value = value * 16 + digit;
    }
    return value;
}

static __attribute__((unused)) void sg_copy(char *to, size_t size, const char *from) {
    size_t length = strlen(from);
    if (length >= size) length = size - 1;
    memcpy(to, from, length);
    to[length] = 0;
}

/* PID:MiB,... */
static void sg_parse_processes(sg_gpu *gpu, char *text) {
    char *save = NULL;
    for (char *item = strtok_r(text, ",", &save); item && gpu->processes < SG_MAX_PROCESSES; item = strtok_r(NULL, ",", &save)) {
        const char *used = strchr(item, ':');
        gpu->process[gpu->processes].pid = (int)sg_number(item);
        gpu->process[gpu->processes++].used_mib = used ? (int)sg_number(used + 1) : 0;
    }
}

/* The next NAME=VALUE of a row. */
static char *sg_item(char *text, char **save, char **value) {
    char *item = strtok_r(text, " ", save);
    while (item && !(*value = strchr(item, '='))) item = strtok_r(NULL, " ", save);
    if (item) *(*value)++ = 0;
    return item;
}

static void sg_parse_gpu(sg_gpu *gpu, char *text) {
    char *save = NULL, *value;
    memset(gpu, 0, sizeof *gpu);
    for (char *item = sg_item(text, &save, &value); item; item = sg_item(NULL, &save, &value)) {
        if (!strcmp(item, "pci")) sg_copy(gpu->pci, sizeof gpu->pci, value);
        else if (!strcmp(item, "uuid")) sg_copy(gpu->uuid, sizeof gpu->uuid, value);
        else if (!strcmp(item, "serial")) sg_copy(gpu->serial, sizeof gpu->serial, value);
        else if (!strcmp(item, "processes")) sg_parse_processes(gpu, value);
#define FIELD(f) else if (!strcmp(item, #f)) gpu->f = (__typeof__(gpu->f))sg_number(value);
        FIELD(minor) FIELD(numa) FIELD(lost) FIELD(ecc) FIELD(ecc_total) FIELD(remapped) FIELD(pending)
        FIELD(throttle) FIELD(temp) FIELD(power_mw) FIELD(limit_mw) FIELD(persistence) FIELD(compute_mode)
        FIELD(util) FIELD(used_mib) FIELD(energy_mj) FIELD(energy_at_ms) FIELD(mig) FIELD(mig_pending)
#undef FIELD
    }
}

static void sg_parse_xid(sg_xid *xid, char *text) {
    char *save = NULL, *value;
    memset(xid, 0, sizeof *xid);
    for (char *item = sg_item(text, &save, &value); item; item = sg_item(NULL, &save, &value)) {
        if (!strcmp(item, "seq")) xid->seq = sg_number(value);
        else if (!strcmp(item, "time")) xid->time = sg_number(value);
        else if (!strcmp(item, "minor")) xid->minor = (int)sg_number(value);
        else if (!strcmp(item, "code")) xid->code = (int)sg_number(value);
    }
}

static void sg_parse_profile(sg_profile *profile, char *text) {
    char *save = NULL, *value, *inner = NULL;
    memset(profile, 0, sizeof *profile);
    for (char *item = sg_item(text, &save, &value); item; item = sg_item(NULL, &save, &value)) {
        if (!strcmp(item, "name")) sg_copy(profile->name, sizeof profile->name, value);
        else if (!strcmp(item, "starts")) {
            for (char *one = strtok_r(value, ",", &inner); one && profile->starts < SG_GPU_INSTANCES; one = strtok_r(NULL, ",", &inner))
                profile->start[profile->starts++] = (int)sg_number(one);
        }
#define FIELD(f) else if (!strcmp(item, #f)) profile->f = (int)sg_number(value);
        FIELD(nvml) FIELD(id) FIELD(compute) FIELD(memory) FIELD(most)
#undef FIELD
    }
}

static void sg_parse_instance(sg_instance *instance, char *text) {
    char *save = NULL, *value;
    memset(instance, 0, sizeof *instance);
    for (char *item = sg_item(text, &save, &value); item; item = sg_item(NULL, &save, &value)) {
        if (!strcmp(item, "uuid")) sg_copy(instance->uuid, sizeof instance->uuid, value);
#define FIELD(f) else if (!strcmp(item, #f)) instance->f = (int)sg_number(value);
        FIELD(minor) FIELD(gi) FIELD(profile) FIELD(start) FIELD(size) FIELD(compute)
#undef FIELD
    }
}

static void sg_parse(sg_state *state, char *text) {
    char *save = NULL;
    memset(state, 0, sizeof *state);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (!strncmp(line, "gpu ", 4)) {
            if (state->gpus < SG_MAX_GPUS) sg_parse_gpu(&state->gpu[state->gpus++], line + 4);
            continue;
        }
        if (!strncmp(line, "xid ", 4)) {
            if (state->xids < SG_MAX_XIDS) sg_parse_xid(&state->xid[state->xids++], line + 4);
            continue;
        }
        if (!strncmp(line, "profile ", 8)) {
            if (state->profiles < SG_MAX_PROFILES) sg_parse_profile(&state->profile[state->profiles++], line + 8);
            continue;
        }
        if (!strncmp(line, "instance ", 9)) {
            if (state->instances < SG_MAX_INSTANCES) sg_parse_instance(&state->instance[state->instances++], line + 9);
            continue;
        }
        char *value = strchr(line, '=');
        if (!value) continue;
        *value++ = 0;
        if (!strcmp(line, "modules")) {
            char *inner = NULL;
            for (char *m = strtok_r(value, ",", &inner); m; m = strtok_r(NULL, ",", &inner)) {
                if (!strcmp(m, "nvidia")) state->loaded = 1;
                if (!strcmp(m, "nvidia_uvm")) state->uvm = 1;
                if (!strcmp(m, "nvidia_modeset")) state->modeset = 1;
            }
        } else if (!strcmp(line, "switch_pci")) {
            char *inner = NULL;
            int i = 0;
            for (char *m = strtok_r(value, ",", &inner); m && i < SG_MAX_SWITCHES; m = strtok_r(NULL, ",", &inner))
                sg_copy(state->switch_pci[i++], 20, m);
        } else if (!strcmp(line, "version")) sg_copy(state->version, sizeof state->version, value);
        else if (!strcmp(line, "flavour")) sg_copy(state->flavour, sizeof state->flavour, value);
        else if (!strcmp(line, "model")) sg_copy(state->model, sizeof state->model, value);
        else if (!strcmp(line, "name")) sg_copy(state->name, sizeof state->name, value);
#define FIELD(f) else if (!strcmp(line, #f)) state->f = (__typeof__(state->f))sg_number(value);
        FIELD(event_seq) FIELD(pid_namespace)
        FIELD(arch) FIELD(cc_major) FIELD(cc_minor) FIELD(memory_mib) FIELD(power_w) FIELD(sms) FIELD(pcie_gen)
        FIELD(pcie_width) FIELD(pci_device) FIELD(pci_subsystem) FIELD(mig) FIELD(mig_instances) FIELD(nvlinks)
        FIELD(switches) FIELD(fabric_needed) FIELD(fabric_nvml) FIELD(fabric) FIELD(fabric_delay_ms)
        FIELD(fabric_broken) FIELD(switch_managers) FIELD(mig_compute) FIELD(mig_memory)
#undef FIELD
    }
}

static __attribute__((unused)) int sg_open(int flags) {
    int fd = open(sg_path("/run/simgpu/live"), flags | O_CLOEXEC);
    if (fd < 0) fd = open(sg_path("/lib/firmware/nvidia/" DRIVER_VERSION "/gsp_simgpu_live.bin"), flags | O_CLOEXEC);
    return fd;
}

/* Read the state; 0 if a consistent one was seen. */
static __attribute__((unused)) int sg_read(int fd, sg_state *state) {
    char *buffer = malloc(SG_SIZE + 1);
    int result = -1;
    if (!buffer) return -1;
    for (int attempt = 0; attempt < 200 && result; attempt++) {
        ssize_t got = pread(fd, buffer, SG_SIZE, 0);
        if (got < 16 || strncmp(buffer, "simgpu-live/1 ", 14)) break;
        buffer[got] = 0;
        char *body = memchr(buffer, '\n', got);
        if (!body || body - buffer < 32) break;
        body++;
        uint64_t wanted = 0, sum = 0xCBF29CE484222325ull;
        for (int i = 14; i < 30; i++) wanted = wanted << 4 | (uint64_t)sg_hex(buffer + i, 1);
        long length = sg_number(buffer + 31);
        if (length > got - (body - buffer)) break;
        for (long i = 0; i < length; i++) sum = (sum ^ (uint8_t)body[i]) * 0x100000001B3ull;
        if (sum == wanted) {
            body[length] = 0;
            sg_parse(state, body);
            result = 0;
        } else {
            usleep(500);
        }
    }
    free(buffer);
    return result;
}

/* Take a reference on a module: a shared lock that ends with the file descriptor. */
static __attribute__((unused)) int sg_hold(int fd, int byte) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    for (int attempt = 0; attempt < 100; attempt++) {
        if (!fcntl(fd, F_OFD_SETLK, &lock)) return 0;
        usleep(1000); /* the kernel is trying to unload the module */
    }
    return -1;
}

/* Whether anybody else holds a byte: how daemons show that they live. */
static __attribute__((unused)) int sg_held(int fd, int byte) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* Fabric state as it is now: without its manager a fabric is not started. */
static __attribute__((unused)) int sg_fabric(int fd, const sg_state *state) {
    if (!state->fabric_needed) return 0;
    return sg_held(fd, SG_FABRICMANAGER) ? state->fabric : 1;
}

/* Device node: 0 granted, otherwise errno. A node without a real driver answers ENXIO where the device cgroup lets it. */
static __attribute__((unused)) int sg_granted(const char *path, int flags) {
    int fd = open(sg_path(path), flags | O_CLOEXEC);
    if (fd >= 0) { close(fd); return 0; }
    return errno == ENXIO || errno == EIO || errno == ENODEV ? 0 : errno;
}
static __attribute__((unused)) int sg_device(const char *path) { return sg_granted(path, O_RDWR); }

/* Shows in /proc/PID/fd that this process uses the device; opening it for real fails for want of a driver. */
static __attribute__((unused)) int sg_show(const char *path) { return open(sg_path(path), O_PATH | O_CLOEXEC); }

/*
 * Capabilities of MIG: configuration 1, monitor 2, then 9 for each ID that a GPU instance can have on each GPU, for itself and
 * for its compute instances (kernel-open/nvidia/nv-caps.c of NVIDIA's open kernel modules).
 */
static __attribute__((unused)) void sg_capability(char path[64], const sg_instance *instance, int compute) {
    snprintf(path, 64, "/dev/nvidia-caps/nvidia-cap%d", 3 + (instance->minor * SG_GPU_INSTANCES + instance->gi) * 9 + compute);
}

/* The instances on which this process may compute, in the order of their IDs, which is that of NVML. */
static __attribute__((unused)) int sg_instances(const sg_state *state, int minor, const sg_instance *out[SG_GPU_INSTANCES]) {
    int found = 0;
    for (int gi = 0; gi < SG_GPU_INSTANCES; gi++) {
        for (int i = 0; i < state->instances; i++) {
            const sg_instance *row = &state->instance[i];
            char own[64], compute[64];
            if (row->minor != minor || row->gi != gi || !row->compute) continue;
            sg_capability(own, row, 0);
            sg_capability(compute, row, 1);
            if (!sg_granted(own, O_RDONLY) && !sg_granted(compute, O_RDONLY)) out[found++] = row;
        }
    }
    return found;
}

static __attribute__((unused)) const sg_profile *sg_profile_of(const sg_state *state, int id) {
    for (int i = 0; i < state->profiles; i++) if (state->profile[i].id == id) return &state->profile[i];
    return NULL;
}

static __attribute__((unused)) unsigned long long sg_memory_of(const sg_state *state, const sg_profile *profile) {
    return (unsigned long long)(state->memory_mib * profile->memory / state->mig_memory);
}

/* The socket of MPS's control daemon, below the folder that its environment names, as for the real one. */
static __attribute__((unused)) void sg_mps_address(struct sockaddr_un *out) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    snprintf(out->sun_path, sizeof out->sun_path, "%s/control", folder && *folder ? folder : "/tmp/nvidia-mps");
}
static __attribute__((unused)) int sg_mps_connect(void) {
    struct sockaddr_un address;
    sg_mps_address(&address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) { close(fd); fd = -1; }
    return fd;
}

#define SG_KERNEL "/usr/lib/simgpu/simgpu"
#define SG_MACHINE "/proc/1/root" /* as who sees a machine's processes finds it in a container */

/* Run a program; one below SG_MACHINE, where it belongs. */
static __attribute__((unused)) int sg_run(const char *const words[]) {
    const char *program = words[0];
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
        if (!strncmp(program, SG_MACHINE "/", sizeof SG_MACHINE)) {
            if (chroot(SG_MACHINE) || chdir("/")) _exit(127);
            program += sizeof SG_MACHINE - 1;
        }
        int null = open("/dev/null", O_RDWR);
        if (null >= 0) { dup2(null, 0); dup2(null, 1); dup2(null, 2); }
        execv(program, (char *const *)words);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

/*
 * The program of the simulated kernel, which changes what is set; NULL for who may not. A real driver asks whether a process is root. Here,
 * one in a container has to see the machine's processes as well (hostPID), and to be privileged.
 */
static __attribute__((unused)) const char *sg_kernel(void) {
    const char *tool = sg_path(SG_KERNEL);
    if (geteuid()) return NULL;
    return !access(tool, X_OK) ? tool : !access(SG_MACHINE SG_KERNEL, X_OK) ? SG_MACHINE SG_KERNEL : NULL;
}

/* As the real libraries do: nvidia-modprobe loads the module and makes the device nodes. */
static __attribute__((unused)) void sg_modprobe(int minor) {
    char option[32];
    const char *tool = sg_path("/usr/bin/nvidia-modprobe");
    if (geteuid() != 0 || access(tool, X_OK)) return;
    snprintf(option, sizeof option, "-c=%d", minor);
    const char *const words[] = {tool, option, "-c=255", NULL};
    sg_run(words);
}
#endif
