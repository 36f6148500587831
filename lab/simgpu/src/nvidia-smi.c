/* nvidia-smi of the simulated driver (gpusmith lab): table, -L, -q, --query-gpu and MIG over libnvidia-ml.so.1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_info;
typedef struct { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; } fabric_info;
typedef struct { void *gpu; unsigned id, profile, start, size; } instance_info;
typedef struct {
    unsigned version, id, p2p, slices, instances, sms, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mib;
    char name[96];
} profile_info;

static void *library;
static char driver[80];
static int cuda;

static const char *words_of(int code) {
    const char *(*f)(int) = (const char *(*)(int))dlsym(library, "nvmlErrorString");
    return f ? f(code) : "Unknown Error";
}
#define CALL(name, ...) ({ int (*f_)() = (int (*)())dlsym(library, name); f_ ? f_(__VA_ARGS__) : 13; })

/* atoi and strtol have new names in new versions of glibc. */
static int number(const char *text) {
    int value = 0;
    while (*text >= '0' && *text <= '9') value = value * 10 + (*text++ - '0');
    return value;
}

/* Watts as people write them, in mW. */
static int milliwatts(const char *text) {
    int value = number(text) * 1000, place = 100;
    const char *dot = strchr(text, '.');
    for (; dot && dot[1] >= '0' && dot[1] <= '9' && place; place /= 10) value += (*++dot - '0') * place;
    return value;
}

static int start(void) {
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) {
        puts("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
             "Please also try adding directory that contains libnvidia-ml.so to your system PATH.");
        return 12;
    }
    int code = CALL("nvmlInit_v2");
    if (code == 9) {
        puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n");
        return 9;
    }
    if (code) {
        printf("Failed to initialize NVML: %s\n", words_of(code));
        if (code == 18) {
            char version[80] = "";
            CALL("nvmlSystemGetNVMLVersion", version, 80u);
            char *dot = strchr(version, '.');
            printf("NVML library version: %s\n", dot ? dot + 1 : version);
        }
        return code == 999 ? 255 : code;
    }
    CALL("nvmlSystemGetDriverVersion", driver, 80u);
    CALL("nvmlSystemGetCudaDriverVersion_v2", &cuda);
    return 0;
}

static const char *fabric_word(int state) {
    static const char *const words[] = {"N/A", "Not Started", "In Progress", "Completed"};
    return state >= 0 && state <= 3 ? words[state] : "N/A";
}

/* Compute modes by their numbers. */
static const struct { const char *option, *word; } modes[] = {{"DEFAULT", "Default"}, {NULL, "Exclusive_Thread"}, {"PROHIBITED", "Prohibited"}, {"EXCLUSIVE_PROCESS", "Exclusive_Process"}};
static const char *mode_word(int mode) { return mode >= 0 && mode <= 3 ? modes[mode].word : "N/A"; }
/* Of -c, which takes a number or a name; -1 if it is neither. */
static int compute_mode(const char *text) {
    for (int i = 0; i < 4; i++) if (modes[i].option && (!strcmp(text, modes[i].option) || (text[0] == '0' + i && !text[1]))) return i;
    return -1;
}

/* One field of --query-gpu; the unit goes to *unit. */
static int field(void *gpu, const char *name, char *out, size_t size, const char **unit) {
    unsigned u = 0, u2 = 0;
    unsigned long long ull = 0;
    int i = 0, i2 = 0, code = 0;
    memory_info memory = {0, 0, 0};
    pci_info pci;
    fabric_info fabric;
    char text[128] = "";
    *unit = "";
    if (!strcmp(name, "name") || !strcmp(name, "gpu_name")) { code = CALL("nvmlDeviceGetName", gpu, text, 96u); snprintf(out, size, "%s", text); }
    else if (!strcmp(name, "uuid") || !strcmp(name, "gpu_uuid")) { code = CALL("nvmlDeviceGetUUID", gpu, text, 96u); snprintf(out, size, "%s", text); }
    else if (!strcmp(name, "serial") || !strcmp(name, "gpu_serial")) { code = CALL("nvmlDeviceGetSerial", gpu, text, 96u); snprintf(out, size, "%s", text); }
    else if (!strcmp(name, "vbios_version")) { code = CALL("nvmlDeviceGetVbiosVersion", gpu, text, 96u); snprintf(out, size, "%s", text); }
    else if (!strcmp(name, "index")) { code = CALL("nvmlDeviceGetIndex", gpu, &u); snprintf(out, size, "%u", u); }
    else if (!strcmp(name, "count")) { code = CALL("nvmlDeviceGetCount_v2", &u); snprintf(out, size, "%u", u); }
    else if (!strcmp(name, "driver_version")) snprintf(out, size, "%s", driver);
    else if (!strcmp(name, "pci.bus_id") || !strcmp(name, "gpu_bus_id")) { code = CALL("nvmlDeviceGetPciInfo_v3", gpu, &pci); snprintf(out, size, "%s", pci.bus_id); }
    else if (!strcmp(name, "pci.device_id")) { code = CALL("nvmlDeviceGetPciInfo_v3", gpu, &pci); snprintf(out, size, "0x%08X", pci.id); }
    else if (!strncmp(name, "memory.", 7)) {
        code = CALL("nvmlDeviceGetMemoryInfo", gpu, &memory);
        const char *what = name + 7;
        ull = !strcmp(what, "total") ? memory.total : !strcmp(what, "free") ? memory.free : !strcmp(what, "used") ? memory.used : ~0ull;
        if (ull == ~0ull) return -1;
        snprintf(out, size, "%llu", ull >> 20);
        *unit = " MiB";
    }
    else if (!strcmp(name, "temperature.gpu")) { code = CALL("nvmlDeviceGetTemperature", gpu, 0, &u); snprintf(out, size, "%u", u); }
    else if (!strcmp(name, "power.draw")) { code = CALL("nvmlDeviceGetPowerUsage", gpu, &u); snprintf(out, size, "%u.%02u", u / 1000, u % 1000 / 10); *unit = " W"; }
    else if (!strcmp(name, "power.limit")) { code = CALL("nvmlDeviceGetPowerManagementLimit", gpu, &u); snprintf(out, size, "%u.%02u", u / 1000, u % 1000 / 10); *unit = " W"; }
    else if (!strcmp(name, "utilization.gpu") || !strcmp(name, "utilization.memory")) {
        unsigned both[2] = {0, 0};
        code = CALL("nvmlDeviceGetUtilizationRates", gpu, both);
        snprintf(out, size, "%u", both[!strcmp(name, "utilization.memory")]);
        *unit = " %";
    }
    else if (!strcmp(name, "compute_cap")) { code = CALL("nvmlDeviceGetCudaComputeCapability", gpu, &i, &i2); snprintf(out, size, "%d.%d", i, i2); }
    else if (!strcmp(name, "compute_mode")) { code = CALL("nvmlDeviceGetComputeMode", gpu, &i); snprintf(out, size, "%s", mode_word(i)); }
    else if (!strcmp(name, "persistence_mode")) { code = CALL("nvmlDeviceGetPersistenceMode", gpu, &i); snprintf(out, size, "%s", i ? "Enabled" : "Disabled"); }
    else if (!strcmp(name, "ecc.mode.current") || !strcmp(name, "ecc.mode.pending")) { code = CALL("nvmlDeviceGetEccMode", gpu, &i, &i2); snprintf(out, size, "%s", i ? "Enabled" : "Disabled"); }
    else if (!strcmp(name, "ecc.errors.uncorrected.volatile.total")) { code = CALL("nvmlDeviceGetTotalEccErrors", gpu, 1, 0, &ull); snprintf(out, size, "%llu", ull); }
    else if (!strcmp(name, "ecc.errors.uncorrected.aggregate.total")) { code = CALL("nvmlDeviceGetTotalEccErrors", gpu, 1, 1, &ull); snprintf(out, size, "%llu", ull); }
    else if (!strcmp(name, "ecc.errors.corrected.volatile.total")) { code = CALL("nvmlDeviceGetTotalEccErrors", gpu, 0, 0, &ull); snprintf(out, size, "%llu", ull); }
    else if (!strcmp(name, "mig.mode.current") || !strcmp(name, "mig.mode.pending")) { code = CALL("nvmlDeviceGetMigMode", gpu, &u, &u2); snprintf(out, size, "%s", (name[9] == 'c' ? u : u2) ? "Enabled" : "Disabled"); }
    else if (!strcmp(name, "pcie.link.gen.current")) { code = CALL("nvmlDeviceGetCurrPcieLinkGeneration", gpu, &u); snprintf(out, size, "%u", u); }
    else if (!strcmp(name, "pcie.link.gen.max")) { code = CALL("nvmlDeviceGetMaxPcieLinkGeneration", gpu, &u); snprintf(out, size, "%u", u); }
    else if (!strcmp(name, "pcie.link.width.current")) { code = CALL("nvmlDeviceGetCurrPcieLinkWidth", gpu, &u); snprintf(out, size, "%u", u); }
    else if (!strcmp(name, "pcie.link.width.max")) { code = CALL("nvmlDeviceGetMaxPcieLinkWidth", gpu, &u); snprintf(out, size, "%u", u); }
    else if (!strcmp(name, "clocks_event_reasons.active") || !strcmp(name, "clocks_throttle_reasons.active")) {
        code = CALL("nvmlDeviceGetCurrentClocksEventReasons", gpu, &ull);
        snprintf(out, size, "0x%016llX", ull);
    }
    else if (!strcmp(name, "remapped_rows.pending") || !strcmp(name, "remapped_rows.uncorrectable")) {
        unsigned rows[4];
        code = CALL("nvmlDeviceGetRemappedRows", gpu, &rows[0], &rows[1], &rows[2], &rows[3]);
        snprintf(out, size, "%u", !strcmp(name, "remapped_rows.pending") ? rows[2] : rows[1]);
    }
    else if (!strcmp(name, "fabric.state") || !strcmp(name, "fabric.status")) {
        code = CALL("nvmlDeviceGetGpuFabricInfo", gpu, &fabric);
        snprintf(out, size, "%s", !strcmp(name, "fabric.state") ? fabric_word(fabric.state) : fabric.state == 3 ? "Success" : "N/A");
    }
    else if (!strcmp(name, "timestamp")) {
        time_t now = time(NULL);
        struct tm parts;
        localtime_r(&now, &parts);
        strftime(out, size, "%Y/%m/%d %H:%M:%S.000", &parts);
    }
    else return -1;
    if (code) { snprintf(out, size, "%s", code == 3 ? "[N/A]" : code == 15 ? "[GPU is lost]" : "[Unknown Error]"); *unit = ""; }
    return code;
}

static int lost(unsigned index, int code) {
    printf("Unable to determine the device handle for GPU%u: %s%s\n", index, words_of(code),
           code == 15 ? ".  Reboot the system to recover this GPU" : "");
    return code;
}

static int query(const char *fields, int header, int units, int only) {
    char copy[4096];
    unsigned count = 0;
    int result = 0;
    char *names[128], *save = NULL;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", fields);
    for (char *item = strtok_r(copy, ",", &save); item && n < 128; item = strtok_r(NULL, ",", &save)) {
        while (*item == ' ') item++;
        names[n++] = item;
    }
    CALL("nvmlDeviceGetCount_v2", &count);
    if (!count) { puts("No devices were found"); return 6; }
    for (unsigned row = 0; row < count; row++) {
        void *gpu = NULL;
        char value[256];
        const char *unit;
        if (only >= 0 && (unsigned)only != row) continue;
        int code = CALL("nvmlDeviceGetHandleByIndex_v2", row, &gpu);
        if (code) { result = lost(row, code); continue; }
        for (int i = 0; i < n && header; i++) {
            if (field(gpu, names[i], value, sizeof value, &unit) < 0) {
                printf("Field \"%s\" is not a valid field to query (or not one that the SIMULATED nvidia-smi has).\n\n", names[i]);
                return 2;
            }
            printf("%s%s%s%s%s", i ? ", " : "", names[i], *unit && units ? " [" : "", *unit && units ? unit + 1 : "", *unit && units ? "]" : "");
        }
        if (header) putchar('\n');
        header = 0;
        for (int i = 0; i < n; i++) {
            if (field(gpu, names[i], value, sizeof value, &unit) < 0) {
                printf("Field \"%s\" is not a valid field to query (or not one that the SIMULATED nvidia-smi has).\n\n", names[i]);
                return 2;
            }
            printf("%s%s%s", i ? ", " : "", value, units ? unit : "");
        }
        putchar('\n');
    }
    return result;
}

static void value_of(void *gpu, const char *name, char *out) {
    const char *unit;
    char plain[256] = "";
    field(gpu, name, plain, sizeof plain, &unit);
    snprintf(out, 256, "%s%s", plain, unit);
}

/* The instances of one GPU, by its MIG devices: who is given one alone sees no other. */
static void list_instances(void *gpu) {
    unsigned most = 0;
    void *part = NULL;
    CALL("nvmlDeviceGetMaxMigDeviceCount", gpu, &most);
    for (unsigned i = 0; i < most && !CALL("nvmlDeviceGetMigDeviceHandleByIndex", gpu, i, &part); i++) {
        char name[256], uuid[256];
        value_of(part, "name", name);
        value_of(part, "uuid", uuid);
        const char *profile = strstr(name, "MIG ");
        printf("  %-15s Device %2u: (UUID: %s)\n", profile ? profile : name, i, uuid);
    }
}

static int list(void) {
    unsigned count = 0;
    int result = 0;
    CALL("nvmlDeviceGetCount_v2", &count);
    if (!count) { puts("No devices found."); return 6; }
    for (unsigned i = 0; i < count; i++) {
        void *gpu = NULL;
        char name[256], uuid[256];
        int code = CALL("nvmlDeviceGetHandleByIndex_v2", i, &gpu);
        if (code) { result = lost(i, code); continue; }
        value_of(gpu, "name", name);
        value_of(gpu, "uuid", uuid);
        printf("GPU %u: %s (UUID: %s)\n", i, name, uuid);
        list_instances(gpu);
    }
    return result;
}

static int details(int only) {
    unsigned count = 0;
    int result = 0;
    time_t now = time(NULL);
    char stamp[64];
    strftime(stamp, sizeof stamp, "%a %b %d %H:%M:%S %Y", localtime(&now));
    CALL("nvmlDeviceGetCount_v2", &count);
    printf("\n==============NVSMI LOG==============\n\n%-42s: %s\n%-42s: %s\n%-42s: %d.%d\n%-42s: yes, gpusmith lab\n\n%-42s: %u\n", "Timestamp",
           stamp, "Driver Version", driver, "CUDA Version", cuda / 1000, cuda % 1000 / 10, "SIMULATED", "Attached GPUs", count);
    static const struct { const char *label, *name; } rows[] = {
        {"Product Name", "name"}, {"Serial Number", "serial"}, {"GPU UUID", "uuid"}, {"Persistence Mode", "persistence_mode"}, {"Compute Mode", "compute_mode"},
        {"VBIOS Version", "vbios_version"}, {"MIG Mode Current", "mig.mode.current"}, {"MIG Mode Pending", "mig.mode.pending"}, {"ECC Mode Current", "ecc.mode.current"},
        {"PCIe Generation Current", "pcie.link.gen.current"}, {"PCIe Generation Max", "pcie.link.gen.max"},
        {"PCIe Link Width Current", "pcie.link.width.current"}, {"PCIe Link Width Max", "pcie.link.width.max"},
        {"Fabric State", "fabric.state"}, {"Fabric Status", "fabric.status"}, {"FB Memory Total", "memory.total"},
        {"FB Memory Used", "memory.used"}, {"GPU Utilization", "utilization.gpu"}, {"Clocks Event Reasons Active", "clocks_event_reasons.active"},
        {"ECC Uncorrectable Volatile", "ecc.errors.uncorrected.volatile.total"}, {"Remapped Rows Pending", "remapped_rows.pending"},
        {"Remapped Rows Uncorrectable", "remapped_rows.uncorrectable"}, {"GPU Current Temp", "temperature.gpu"}, {"Power Draw", "power.draw"}};
    for (unsigned i = 0; i < count; i++) {
        void *gpu = NULL;
        char value[256];
        if (only >= 0 && (unsigned)only != i) continue;
        int code = CALL("nvmlDeviceGetHandleByIndex_v2", i, &gpu);
        if (code) { result = lost(i, code); continue; }
        value_of(gpu, "pci.bus_id", value);
        printf("GPU %s\n", value);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            value_of(gpu, rows[k].name, value);
            printf("    %-38s: %s\n", rows[k].label, value);
        }
    }
    return result;
}

/* Index of the GPU that -i names by index, UUID or PCI address; -1 if there is none. */
static int chosen(const char *name) {
    void *gpu = NULL;
    unsigned index = 0, count = 0;
    int code;
    if (!strncmp(name, "GPU-", 4)) code = CALL("nvmlDeviceGetHandleByUUID", name, &gpu);
    else if (strchr(name, ':')) code = CALL("nvmlDeviceGetHandleByPciBusId_v2", name, &gpu);
    else {
        CALL("nvmlDeviceGetCount_v2", &count);
        index = (unsigned)number(name);
        return *name >= '0' && *name <= '9' && index < count ? (int)index : -1;
    }
    return code || CALL("nvmlDeviceGetIndex", gpu, &index) ? -1 : (int)index;
}

/* -pl WATTS, -pm 0|1, -c MODE, -mig 0|1 or --gpu-reset for one GPU, or for all. */
static int change(int what, int value, int only) {
    unsigned count = 0, low = 0, high = 0, before = 0;
    CALL("nvmlDeviceGetCount_v2", &count);
    if (!count) { puts("No devices were found"); return 6; }
    for (unsigned i = 0; i < count; i++) {
        void *gpu = NULL;
        char bus[256];
        if (only >= 0 && (unsigned)only != i) continue;
        int code = CALL("nvmlDeviceGetHandleByIndex_v2", i, &gpu);
        if (code) return lost(i, code);
        value_of(gpu, "pci.bus_id", bus);
        if (what == 'l') {
            CALL("nvmlDeviceGetPowerManagementLimitConstraints", gpu, &low, &high);
            CALL("nvmlDeviceGetPowerManagementLimit", gpu, &before);
            code = CALL("nvmlDeviceSetPowerManagementLimit", gpu, (unsigned)value);
            if (code == 2) printf("Provided power limit %.2f W is not a valid power limit which should be between %.2f W and %.2f W for GPU %s\n", value / 1e3, low / 1e3, high / 1e3, bus);
            else if (!code) printf("Power limit for GPU %s was set to %.2f W from %.2f W.\n", bus, value / 1e3, before / 1e3);
        } else if (what == 'c') {
            code = CALL("nvmlDeviceSetComputeMode", gpu, value);
            if (!code) printf("Set compute mode to %s for GPU %s.\n", modes[value].option, bus);
        } else if (what == 'R') {
            if ((code = CALL("gpusmith_simulated_reset", gpu))) { printf("The following GPUs could not be reset:\n  GPU %s: %s\n", bus, words_of(code)); return 255; }
            printf("GPU %s was successfully reset.\n", bus);
        } else if (what == 'M') {
            int activation = 0;
            const char *able = value ? "enable" : "disable";
            code = CALL("nvmlDeviceSetMigMode", gpu, (unsigned)value, &activation);
            if (!code && activation) printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n%s is currently being used by one or more other processes (e.g. CUDA application or a monitoring application such as another instance of nvidia-smi). Please first kill all processes using the device and retry the command or reboot the system to make MIG mode effective.\n", able, bus, words_of(activation), bus);
            else if (!code) printf("%s MIG Mode for GPU %s\n", value ? "Enabled" : "Disabled", bus);
        } else {
            code = CALL("nvmlDeviceSetPersistenceMode", gpu, value);
            if (!code) printf("%s persistence mode for GPU %s.\n", value ? "Enabled" : "Disabled", bus);
        }
        if (code && code != 2) printf("Unable to change GPU %s: %s\nTerminating early due to previous errors.\n", bus, words_of(code));
        if (code) return code;
    }
    puts("All done.");
    return 0;
}

/* --- mig ------------------------------------------------------------------------------------------------- */

static struct { int verb, compute, instance; const char *profiles; } asked = {0, 0, -1, NULL};

static int find_profile(void *gpu, int number, profile_info *out) {
    memset(out, 0, sizeof *out);
    out->version = 2u << 24 | sizeof *out;
    return CALL("nvmlDeviceGetGpuInstanceProfileInfoV", gpu, (unsigned)number, out);
}

/* Lists or destroys GPU instances, or destroys their compute instances: of a GPU all, or the one that -gi names. */
static int instances(unsigned index, void *gpu, unsigned *count) {
    for (unsigned id = 0; id < 15; id++) {
        void *instance = NULL, *compute = NULL;
        instance_info info;
        profile_info profile;
        char what[96];
        int code = 0;
        if ((asked.instance >= 0 && id != (unsigned)asked.instance) || CALL("nvmlDeviceGetGpuInstanceById", gpu, id, &instance)) continue;
        snprintf(what, sizeof what, "GPU instance ID %2u from GPU %2u", id, index);
        if (asked.verb == 'l') {
            if (!*count) puts("| GPU  Name              Profile  Instance  Start:Size |");
            CALL("nvmlGpuInstanceGetInfo", instance, &info);
            for (int at = 0; at < 17 && (find_profile(gpu, at, &profile) || profile.id != info.profile); at++) {}
            printf("| %3u  %-17s %5u    %5u     %5u:%-4u |\n", index, profile.name, info.profile, id, info.start, info.size);
        } else if (asked.verb == 'd') code = CALL("nvmlGpuInstanceDestroy", instance);
        else if (CALL("nvmlGpuInstanceGetComputeInstanceById", instance, 0u, &compute)) continue;
        else {
            code = CALL("nvmlComputeInstanceDestroy", compute);
            snprintf(what, sizeof what, "compute instance ID  0 from GPU %2u GPU instance ID %2u", index, id);
        }
        if (code) printf("Unable to destroy %s: %s\n", what, words_of(code));
        else if (asked.verb != 'l') printf("Successfully destroyed %s\n", what);
        if (code) return code;
        ++*count;
    }
    return 0;
}

static int profiles(unsigned index, void *gpu, unsigned *count) {
    if (!(*count)++) puts("| GPU  Name                  ID  Instances  Memory GiB   SM   |");
    for (int number = 0; number < 17; number++) {
        profile_info profile;
        if (find_profile(gpu, number, &profile)) continue;
        printf("| %3u  %-18s %5u  %9u  %10.2f  %4u  |\n", index, profile.name, profile.id, profile.instances, (double)profile.memory_mib / 1024, profile.sms);
    }
    return 0;
}

/* -cgi takes profiles by ID, by name, and by name with 'MIG ' before it. */
static int create_instances(unsigned index, void *gpu, unsigned *count) {
    ++*count;
    char copy[1024], *save = NULL;
    snprintf(copy, sizeof copy, "%s", asked.profiles);
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        profile_info profile;
        instance_info info;
        void *instance = NULL, *compute = NULL;
        int at = 0, code = 2, by_name = strchr(item, 'g') != NULL;
        for (; at < 17; at++) {
            if (find_profile(gpu, at, &profile)) continue;
            if (by_name ? !strcmp(profile.name, item) || !strcmp(profile.name + 4, item) : profile.id == (unsigned)number(item)) break;
        }
        if (at < 17) code = CALL("nvmlDeviceCreateGpuInstance", gpu, profile.id, &instance);
        if (code) {
            printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\n", index, item, words_of(code));
            return code;
        }
        CALL("nvmlGpuInstanceGetInfo", instance, &info);
        printf("Successfully created GPU instance ID %2u on GPU %2u using profile %s (ID %2u)\n", info.id, index, profile.name, profile.id);
        for (unsigned id = 0; asked.compute && !compute && id < 8; id++) {
            unsigned own[9];
            if (CALL("nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, id, 0u, own)) continue;
            if ((code = CALL("nvmlGpuInstanceCreateComputeInstance", instance, own[0], &compute))) return code;
            printf("Successfully created compute instance ID  0 on GPU %2u GPU instance ID %2u using profile %s (ID %2u)\n", index, info.id, profile.name, own[0]);
        }
    }
    return 0;
}

/* For one GPU, or for all in MIG mode. */
static int mig(int only) {
    unsigned count = 0, enabled = 0, found = 0;
    int code = 0;
    CALL("nvmlDeviceGetCount_v2", &count);
    for (unsigned i = 0; i < count && !code; i++) {
        void *gpu = NULL;
        unsigned now = 0, later = 0;
        if ((only >= 0 && (unsigned)only != i) || CALL("nvmlDeviceGetHandleByIndex_v2", i, &gpu)) continue;
        if (CALL("nvmlDeviceGetMigMode", gpu, &now, &later) || !now) continue;
        enabled++;
        code = (asked.verb == 'p' ? profiles : asked.verb == 'c' ? create_instances : instances)(i, gpu, &found);
    }
    if (!enabled) { puts("No MIG-enabled devices found."); return 6; }
    if (!code && !found) { puts("No GPU instances found: Not Found"); return 6; }
    if (code) printf("Failed to %s %s instances: %s\n", asked.verb == 'c' ? "create" : "destroy", asked.verb == 'C' ? "compute" : "GPU", words_of(code));
    return code;
}

/* Lines of the table, one for each process on each GPU. */
static void processes(unsigned count) {
    int any = 0;
    for (unsigned i = 0; i < count; i++) {
        void *gpu = NULL;
        process_info rows[64];
        unsigned found = sizeof rows / sizeof *rows;
        if (CALL("nvmlDeviceGetHandleByIndex_v2", i, &gpu) || CALL("nvmlDeviceGetComputeRunningProcesses_v3", gpu, &found, rows)) continue;
        if (found && !any++) printf("| %-87s |\n", " GPU   GI   CI              PID   Type   Process name                       GPU Memory");
        for (unsigned k = 0; k < found; k++) {
            char name[256] = "[Not Found]", row[512];
            CALL("nvmlSystemGetProcessName", rows[k].pid, name, 256u);
            snprintf(row, sizeof row, "%4u   N/A  N/A %16u      C   %-32.32s %9lluMiB", i, rows[k].pid, name, rows[k].used >> 20);
            printf("| %-87.87s |\n", row);
        }
    }
    if (!any) printf("| %-87s |\n", " No running processes found");
}

static int table(void) {
    unsigned count = 0;
    int result = 0;
    time_t now = time(NULL);
    char stamp[64];
    CALL("nvmlDeviceGetCount_v2", &count);
    if (!count) { puts("No devices were found"); return 6; }
    strftime(stamp, sizeof stamp, "%a %b %d %H:%M:%S %Y", localtime(&now));
    const char *line = "+-----------------------------------------------------------------------------------------+";
    puts(stamp);
    puts(line);
    char title[128];
    snprintf(title, sizeof title, "NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %d.%d", driver, driver, cuda / 1000, cuda % 1000 / 10);
    printf("| %-87s |\n", title);
    printf("| %-87s |\n", "SIMULATED GPU hardware, gpusmith lab: nothing is computed on these devices.");
    puts(line);
    for (unsigned i = 0; i < count; i++) {
        void *gpu = NULL;
        char name[256], bus[256], used[256], total[256], temp[256], power[256], limit[256], persistence[256], busy[256], mode[256], row[512];
        int code = CALL("nvmlDeviceGetHandleByIndex_v2", i, &gpu);
        if (code) { result = lost(i, code); continue; }
        value_of(gpu, "name", name); value_of(gpu, "pci.bus_id", bus); value_of(gpu, "memory.used", used);
        value_of(gpu, "memory.total", total); value_of(gpu, "temperature.gpu", temp); value_of(gpu, "power.draw", power);
        value_of(gpu, "power.limit", limit); value_of(gpu, "persistence_mode", persistence);
        value_of(gpu, "utilization.gpu", busy); value_of(gpu, "compute_mode", mode);
        snprintf(row, sizeof row, "%3u  %-28.28s %-3s  %-16.16s  %sC  %s / %s", i, name, *persistence == 'E' ? "On" : "Off", bus, temp, power, limit);
        printf("| %-87.87s |\n", row);
        snprintf(row, sizeof row, "     %s / %s   %s   %s", used, total, busy, mode);
        printf("| %-87.87s |\n", row);
    }
    puts(line);
    puts("\n+-----------------------------------------------------------------------------------------+");
    printf("| %-87s |\n", "Processes:");
    processes(count);
    puts(line);
    return result;
}

int main(int argc, char **argv) {
    int only = -1, what = 0, header = 1, units = 1, value = 0;
    const char *fields = NULL, *format = NULL, *name = NULL;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "mig") && i == 1) what = 'i';
        else if (what == 'i' && (!strcmp(a, "-lgi") || !strcmp(a, "-dgi") || !strcmp(a, "-dci"))) asked.verb = a[2] == 'c' ? 'C' : a[1];
        else if (what == 'i' && !strcmp(a, "-lgip")) asked.verb = 'p';
        else if (what == 'i' && !strcmp(a, "-cgi") && i + 1 < argc) { asked.verb = 'c'; asked.profiles = argv[++i]; }
        else if (what == 'i' && !strcmp(a, "-C")) asked.compute = 1;
        else if (what == 'i' && !strcmp(a, "-gi") && i + 1 < argc) asked.instance = number(argv[++i]);
        else if (!strcmp(a, "-mig") && i + 1 < argc) { what = 'M'; value = number(argv[++i]); }
        else if (!strcmp(a, "-r") || !strcmp(a, "--gpu-reset")) what = 'R';
        else if (!strcmp(a, "-L") || !strcmp(a, "--list-gpus")) what = 'L';
        else if (!strcmp(a, "-q") || !strcmp(a, "--query")) what = 'q';
        else if (!strncmp(a, "--query-gpu=", 12)) { what = 'g'; fields = a + 12; }
        else if (!strncmp(a, "--format=", 9)) format = a + 9;
        else if ((!strcmp(a, "-i") && i + 1 < argc) || !strncmp(a, "--id=", 5)) name = a[1] == 'i' ? argv[++i] : a + 5;
        else if ((!strcmp(a, "-pl") || !strcmp(a, "-pm")) && i + 1 < argc) { what = a[2]; value = what == 'l' ? milliwatts(argv[++i]) : number(argv[++i]); }
        else if ((!strcmp(a, "-c") && i + 1 < argc) || !strncmp(a, "--compute-mode=", 15)) {
            const char *mode = a[1] == 'c' ? argv[++i] : a + 15;
            what = 'c';
            if ((value = compute_mode(mode)) < 0) { printf("Invalid compute mode: %s\n", mode); return 2; }
        }
        else if (!strcmp(a, "-d") && i + 1 < argc) i++; /* sections of -q: all of them are shown */
        else if (!strcmp(a, "--version")) what = 'v';
        else if (!strcmp(a, "-h") || !strcmp(a, "--help")) {
            puts("nvidia-smi (SIMULATED, gpusmith lab): [-L] [-q [-d SECTIONS]] [-i INDEX|UUID|PCI] [-pl WATTS] [-pm 0|1] [-c MODE] [-mig 0|1] [--gpu-reset] [--query-gpu=FIELD,... --format=csv[,noheader][,nounits]]\n"
                 "nvidia-smi mig [-i INDEX|UUID|PCI] -lgip | -lgi | -cgi PROFILE,... [-C] | -dci [-gi ID] | -dgi [-gi ID]");
            return 0;
        } else {
            printf("Invalid combination of input arguments. The SIMULATED nvidia-smi of the gpusmith lab does not know '%s'.\n", a);
            return 2;
        }
    }
    if (what == 'g' && (!format || strncmp(format, "csv", 3))) { puts("\"--format=\" switch is missing (only csv is simulated)."); return 2; }
    if (format && strstr(format, "noheader")) header = 0;
    if (format && strstr(format, "nounits")) units = 0;
    int code = start();
    if (code) return code;
    if (name && (only = chosen(name)) < 0) { puts("No devices were found"); return 6; }
    switch (what) {
    case 'L': code = list(); break;
    case 'q': code = details(only); break;
    case 'i': code = asked.verb ? mig(only) : 2; break;
    case 'l': case 'm': case 'c': case 'M': case 'R': code = change(what, value, only); break;
    case 'g': code = query(fields, header, units, only); break;
    case 'v': printf("NVIDIA-SMI version  : %s (SIMULATED)\nDRIVER version      : %s\nCUDA Version        : %d.%d\n", driver, driver, cuda / 1000, cuda % 1000 / 10); break;
    default: code = table();
    }
    CALL("nvmlShutdown");
    return code;
}
