/* nvidia-smi of the simulated driver (gpusmith lab): table, -L, -q and --query-gpu over libnvidia-ml.so.1. */
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
    else if (!strcmp(name, "compute_mode")) snprintf(out, size, "Default");
    else if (!strcmp(name, "persistence_mode")) { code = CALL("nvmlDeviceGetPersistenceMode", gpu, &i); snprintf(out, size, "%s", i ? "Enabled" : "Disabled"); }
    else if (!strcmp(name, "ecc.mode.current") || !strcmp(name, "ecc.mode.pending")) { code = CALL("nvmlDeviceGetEccMode", gpu, &i, &i2); snprintf(out, size, "%s", i ? "Enabled" : "Disabled"); }
    else if (!strcmp(name, "ecc.errors.uncorrected.volatile.total")) { code = CALL("nvmlDeviceGetTotalEccErrors", gpu, 1, 0, &ull); snprintf(out, size, "%llu", ull); }
    else if (!strcmp(name, "ecc.errors.uncorrected.aggregate.total")) { code = CALL("nvmlDeviceGetTotalEccErrors", gpu, 1, 1, &ull); snprintf(out, size, "%llu", ull); }
    else if (!strcmp(name, "ecc.errors.corrected.volatile.total")) { code = CALL("nvmlDeviceGetTotalEccErrors", gpu, 0, 0, &ull); snprintf(out, size, "%llu", ull); }
    else if (!strcmp(name, "mig.mode.current") || !strcmp(name, "mig.mode.pending")) { code = CALL("nvmlDeviceGetMigMode", gpu, &u, &u2); snprintf(out, size, "%s", u ? "Enabled" : "Disabled"); }
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
        {"Product Name", "name"}, {"Serial Number", "serial"}, {"GPU UUID", "uuid"}, {"Persistence Mode", "persistence_mode"},
        {"VBIOS Version", "vbios_version"}, {"MIG Mode Current", "mig.mode.current"}, {"ECC Mode Current", "ecc.mode.current"},
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

/* -pl WATTS or -pm 0|1 for one GPU, or for all. */
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
        char name[256], bus[256], used[256], total[256], temp[256], power[256], limit[256], persistence[256], busy[256], row[512];
        int code = CALL("nvmlDeviceGetHandleByIndex_v2", i, &gpu);
        if (code) { result = lost(i, code); continue; }
        value_of(gpu, "name", name); value_of(gpu, "pci.bus_id", bus); value_of(gpu, "memory.used", used);
        value_of(gpu, "memory.total", total); value_of(gpu, "temperature.gpu", temp); value_of(gpu, "power.draw", power);
        value_of(gpu, "power.limit", limit); value_of(gpu, "persistence_mode", persistence);
        value_of(gpu, "utilization.gpu", busy);
        snprintf(row, sizeof row, "%3u  %-28.28s %-3s  %-16.16s  %sC  %s / %s", i, name, *persistence == 'E' ? "On" : "Off", bus, temp, power, limit);
        printf("| %-87.87s |\n", row);
        snprintf(row, sizeof row, "     %s / %s   %s   Default", used, total, busy);
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
        if (!strcmp(a, "-L") || !strcmp(a, "--list-gpus")) what = 'L';
        else if (!strcmp(a, "-q") || !strcmp(a, "--query")) what = 'q';
        else if (!strncmp(a, "--query-gpu=", 12)) { what = 'g'; fields = a + 12; }
        else if (!strncmp(a, "--format=", 9)) format = a + 9;
        else if ((!strcmp(a, "-i") && i + 1 < argc) || !strncmp(a, "--id=", 5)) name = a[1] == 'i' ? argv[++i] : a + 5;
        else if ((!strcmp(a, "-pl") || !strcmp(a, "-pm")) && i + 1 < argc) { what = a[2]; value = what == 'l' ? milliwatts(argv[++i]) : number(argv[++i]); }
        else if (!strcmp(a, "-d") && i + 1 < argc) i++; /* sections of -q: all of them are shown */
        else if (!strcmp(a, "--version")) what = 'v';
        else if (!strcmp(a, "-h") || !strcmp(a, "--help")) {
            puts("nvidia-smi (SIMULATED, gpusmith lab): [-L] [-q [-d SECTIONS]] [-i INDEX|UUID|PCI] [-pl WATTS] [-pm 0|1] [--query-gpu=FIELD,... --format=csv[,noheader][,nounits]]");
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
    case 'l': case 'm': code = change(what, value, only); break;
    case 'g': code = query(fields, header, units, only); break;
    case 'v': printf("NVIDIA-SMI version  : %s (SIMULATED)\nDRIVER version      : %s\nCUDA Version        : %d.%d\n", driver, driver, cuda / 1000, cuda % 1000 / 10); break;
    default: code = table();
    }
    CALL("nvmlShutdown");
    return code;
}
