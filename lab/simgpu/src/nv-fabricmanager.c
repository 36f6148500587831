/* nv-fabricmanager of the simulated driver (gpusmith lab): brings the NVLink fabric up, and only its own version's. */
#include "state.h"

#include <signal.h>
#include <syslog.h>

static volatile sig_atomic_t stop;
static void on_signal(int number) { (void)number; stop = 1; }

static int fail(const char *text, const char *detail) {
    fprintf(stderr, "fabric manager: %s%s\n", text, detail);
    syslog(LOG_ERR, "%s%s", text, detail);
    return 1;
}

static void report(const char *value) {
    const char *const words[] = {"/usr/lib/simgpu/simgpu", "fabric", value, NULL};
    sg_run(words);
}

int main(int argc, char **argv) {
    static sg_state state;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-v")) {
            printf("Fabric Manager version is : %s (SIMULATED, gpusmith lab)\n", DRIVER_VERSION);
            return 0;
        }
    }
    openlog("nv-fabricmanager", LOG_PID, LOG_DAEMON);
    int live = sg_open(O_RDONLY);
    if (live < 0 || sg_read(live, &state) || !state.loaded) return fail("request to initialize the driver failed: NVIDIA driver is not loaded", "");
    if (strcmp(state.version, DRIVER_VERSION)) {
        char detail[160];
        snprintf(detail, sizeof detail, " fabric manager version %s, driver version %s. Please update with matching NVIDIA driver package.", DRIVER_VERSION, state.version);
        return fail("detected version mismatch:", detail);
    }
    if (!state.fabric_needed) return fail("failed to initialize: NV_WARN_NOTHING_TO_DO, no NVSwitch device was found", "");
    if (state.switch_managers) {
        /* NVIDIA's program for its start looks for its ports with the one, and starts the other. */
        const char *const needed[] = {"/usr/sbin/ibstat", "/opt/nvidia/nvlsm/sbin/nvlsm"};
        for (int i = 0; i < 2; i++)
            if (access(needed[i], X_OK)) return fail("the switches of NVLink 5 cannot be managed without ", needed[i]);
    }
    if (state.fabric_broken) return fail("failed to initialize all the NVSwitch devices: fatal error on a switch port", "");
    if (sg_held(live, SG_FABRICMANAGER)) return fail("another instance is running", "");
    if (daemon(0, 0)) return fail("cannot daemonize", "");
    if (sg_hold(live, SG_NVIDIA) || sg_hold(live, SG_FABRICMANAGER)) return fail("cannot hold the devices", "");
    sg_show("/dev/nvidiactl");
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    report("in-progress");
    if (sg_read(live, &state)) return fail("the driver's state cannot be read", "");
    usleep(1000u * (unsigned)state.fabric_delay_ms);
    if (!stop) report("completed");
    syslog(LOG_NOTICE, "Successfully configured all the available SIMULATED NVSwitches to route GPU NVLink traffic.");
    while (!stop) pause();
    return 0; /* without its manager the fabric counts as not started: the lock is gone */
}
