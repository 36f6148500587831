/* nvidia-imex of the simulated driver (gpusmith lab): reads the list of its domain, and stays. It exchanges no memory with anybody. */
#include "state.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <signal.h>
#include <syslog.h>

#define NODES "/etc/nvidia-imex/nodes_config.cfg"

static volatile sig_atomic_t stop;
static void on_signal(int number) { (void)number; stop = 1; }

static int fail(const char *text, const char *detail) {
    fprintf(stderr, "nvidia-imex: %s%s\n", text, detail);
    syslog(LOG_ERR, "%s%s", text, detail);
    return 1;
}

/* A line without its end; 0 if there is none. */
static int line_of(FILE *file, char *line, int size) {
    if (!fgets(line, size, file)) return 0;
    line[strcspn(line, " \t\r\n")] = 0;
    return 1;
}

/* Where the list is, by the service's own settings. */
static void nodes_file(const char *config, char *path, size_t size) {
    const char *key = "IMEX_NODE_CONFIG_FILE=";
    char line[512];
    FILE *file = fopen(sg_path(config), "re");
    sg_copy(path, size, NODES);
    while (file && line_of(file, line, sizeof line))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)]) sg_copy(path, size, line + strlen(key));
    if (file) fclose(file);
}

/* Whether an address is one of this machine's. */
static int is_own(const char *text) {
    unsigned char wanted[16];
    int family = strchr(text, ':') ? AF_INET6 : AF_INET, found = 0;
    struct ifaddrs *all = NULL;
    if (inet_pton(family, text, wanted) != 1 || getifaddrs(&all)) return 0;
    for (struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != family) continue;
        if (family == AF_INET) found = !memcmp(&((struct sockaddr_in *)one->ifa_addr)->sin_addr, wanted, 4);
        else found = !memcmp(&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr, wanted, 16);
    }
    freeifaddrs(all);
    return found;
}

int main(int argc, char **argv) {
    static sg_state state;
    const char *config = "/etc/nvidia-imex/config.cfg";
    char path[512], line[256];
    int nodes = 0, own = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-v")) {
            printf("IMEX version is: %s (SIMULATED, gpusmith lab)\n", DRIVER_VERSION);
            return 0;
        }
        if (!strcmp(argv[i], "-c") && i + 1 < argc) config = argv[++i];
    }
    openlog("nvidia-imex", LOG_PID, LOG_DAEMON);
    nodes_file(config, path, sizeof path);
    FILE *file = fopen(sg_path(path), "re");
    while (file && line_of(file, line, sizeof line)) {
        if (!*line) continue;
        nodes++;
        own |= is_own(line);
    }
    if (file) fclose(file);
    if (!nodes) {
        syslog(LOG_NOTICE, "No nodes in %s: there is no domain.", path);
        return 0;
    }
    if (!own) return fail("No matching network interface found for any IP addresses in ", path);
    int live = sg_open(O_RDONLY);
    if (live < 0 || sg_read(live, &state) || !state.loaded) return fail("the NVIDIA driver is not loaded", "");
    if (strcmp(state.version, DRIVER_VERSION)) return fail("the loaded driver is of another version: ", state.version);
    if (daemon(0, 0)) return fail("cannot daemonize", "");
    if (sg_hold(live, SG_NVIDIA)) return fail("cannot hold the devices", "");
    sg_show("/dev/nvidiactl");
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    syslog(LOG_NOTICE, "SIMULATED domain of %d nodes.", nodes);
    while (!stop) pause();
    return 0;
}
