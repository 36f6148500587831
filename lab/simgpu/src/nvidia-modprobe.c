/* nvidia-modprobe of the simulated driver (gpusmith lab): loads modules and makes device nodes, setuid root. */
#include "state.h"

static int load(const char *module) {
    const char *const words[] = {"/sbin/modprobe", module, NULL};
    return sg_run(words);
}

static int major_of(const char *name) {
    char buffer[8192], *save = NULL;
    int fd = open("/proc/devices", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof buffer - 1);
    if (fd >= 0) close(fd);
    if (got <= 0) return -1;
    buffer[got] = 0;
    for (char *line = strtok_r(buffer, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        while (*line == ' ') line++;
        char *word = strchr(line, ' ');
        if (word && !strcmp(word + 1, name)) return (int)sg_number(line);
    }
    return -1;
}

static int node(const char *path, int major, int minor, mode_t mode) {
    struct stat now;
    dev_t wanted = makedev((unsigned)major, (unsigned)minor);
    if (major < 0) return 1;
    if (!stat(path, &now)) {
        if (S_ISCHR(now.st_mode) && now.st_rdev == wanted) return chmod(path, mode) != 0;
        unlink(path);
    }
    if (mknod(path, S_IFCHR | mode, wanted)) return 1;
    return chmod(path, mode) != 0;
}

static int loaded(void) { return !access("/sys/module/nvidia", F_OK); }

int main(int argc, char **argv) {
    int result = 0, modeset = 0, uvm = 0, minors[SG_MAX_GPUS + 2], count = 0;
    const char *caps[8];
    int cap_count = 0;
    if (setuid(0)) { /* without the setuid bit only root can do this */ }
    setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strncmp(a, "-c", 2)) {
            const char *value = a[2] == '=' ? a + 3 : a[2] ? a + 2 : i + 1 < argc ? argv[++i] : "0";
            if (count < SG_MAX_GPUS + 2) minors[count++] = (int)sg_number(value);
        } else if (!strncmp(a, "--create-nvidia-device-file=", 28)) {
            if (count < SG_MAX_GPUS + 2) minors[count++] = (int)sg_number(a + 28);
        } else if (!strcmp(a, "-m") || !strcmp(a, "--modeset")) modeset = 1;
        else if (!strcmp(a, "-u") || !strcmp(a, "--unified-memory")) uvm = 1;
        else if (!strcmp(a, "-f") && i + 1 < argc) { if (cap_count < 8) caps[cap_count++] = argv[++i]; }
        else if (!strcmp(a, "-v") || !strcmp(a, "--version")) {
            printf("nvidia-modprobe:  version %s (SIMULATED, gpusmith lab)\n", DRIVER_VERSION);
            return 0;
        } else if (!strcmp(a, "-s") || !strcmp(a, "-l")) { /* NVSwitch and NVLink nodes: not simulated */
        } else {
            fprintf(stderr, "nvidia-modprobe: unknown option '%s'\n", a);
            return 1;
        }
    }
    if (!loaded()) result |= load("nvidia") != 0;
    if (!loaded()) return 1;
    for (int i = 0; i < count; i++) {
        char path[32];
        if (minors[i] == 255) sg_copy(path, sizeof path, "/dev/nvidiactl");
        else snprintf(path, sizeof path, "/dev/nvidia%d", minors[i]);
        result |= node(path, 195, minors[i], 0666);
        if (minors[i] != 255) result |= node("/dev/nvidiactl", 195, 255, 0666);
    }
    if (modeset) {
        if (access("/sys/module/nvidia_modeset", F_OK)) result |= load("nvidia-modeset") != 0;
        result |= node("/dev/nvidia-modeset", 195, 254, 0666);
    }
    if (uvm) {
        if (access("/sys/module/nvidia_uvm", F_OK)) result |= load("nvidia-uvm") != 0;
        result |= node("/dev/nvidia-uvm", major_of("nvidia-uvm"), 0, 0666);
        result |= node("/dev/nvidia-uvm-tools", major_of("nvidia-uvm"), 1, 0666);
    }
    for (int i = 0; i < cap_count; i++) {
        char buffer[256], path[64];
        int fd = open(caps[i], O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? -1 : read(fd, buffer, sizeof buffer - 1);
        if (fd >= 0) close(fd);
        if (got <= 0) { result = 1; continue; }
        buffer[got] = 0;
        char *minor = strstr(buffer, "DeviceFileMinor: "), *mode = strstr(buffer, "DeviceFileMode: ");
        if (!minor || !mode) { result = 1; continue; }
        mkdir("/dev/nvidia-caps", 0755);
        snprintf(path, sizeof path, "/dev/nvidia-caps/nvidia-cap%d", (int)sg_number(minor + 17));
        result |= node(path, major_of("nvidia-caps"), (int)sg_number(minor + 17), (mode_t)sg_number(mode + 16));
    }
    return result;
}
