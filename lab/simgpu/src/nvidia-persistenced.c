/* nvidia-persistenced of the simulated driver (gpusmith lab): holds all GPUs open, so that they stay initialised. */
#include "state.h"

#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>

#define FOLDER "/run/nvidia-persistenced"

static volatile sig_atomic_t stop;
static void on_signal(int number) { (void)number; stop = 1; }

static int fail(const char *text) {
    fprintf(stderr, "nvidia-persistenced failed to initialize. %s Check syslog for more details.\n", text);
    syslog(LOG_ERR, "%s", text);
    return 1;
}

int main(int argc, char **argv) {
    const char *user = NULL;
    static sg_state state;
    for (int i = 1; i < argc; i++) {
        if ((!strcmp(argv[i], "--user") || !strcmp(argv[i], "-u")) && i + 1 < argc) user = argv[++i];
        else if (!strncmp(argv[i], "--user=", 7)) user = argv[i] + 7;
        else if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-v")) {
            printf("nvidia-persistenced:  version %s (SIMULATED, gpusmith lab)\n", DRIVER_VERSION);
            return 0;
        } /* --verbose, --persistence-mode and --uvm-persistence-mode change nothing here */
    }
    openlog("nvidia-persistenced", LOG_PID, LOG_DAEMON);
    sg_modprobe(0);
    int live = sg_open(O_RDONLY);
    if (live < 0 || sg_read(live, &state) || !state.loaded) return fail("Failed to query NVIDIA devices. Please ensure that the NVIDIA device files (/dev/nvidia*) exist, and that user 0 has read and write permissions for those files.");
#ifndef ANY_DRIVER /* Debian's is packaged by itself and takes the installed libnvidia-cfg, whatever its version */
    if (strcmp(state.version, DRIVER_VERSION)) return fail("The driver and the persistence daemon have different versions.");
#endif
    for (int i = 0; i < state.gpus; i++) {
        char path[32];
        sg_modprobe(state.gpu[i].minor);
        snprintf(path, sizeof path, "/dev/nvidia%d", state.gpu[i].minor);
        if (sg_device(path)) return fail("Failed to open a NVIDIA device file.");
        sg_show(path);
    }
    sg_show("/dev/nvidiactl");
    mkdir(FOLDER, 0755);
    if (user) {
        struct passwd *row = getpwnam(user);
        if (!row) return fail("Unable to find the user to run as.");
        if (chown(FOLDER, row->pw_uid, row->pw_gid) || setgid(row->pw_gid) || setuid(row->pw_uid)) return fail("Unable to change the user.");
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    sg_copy(address.sun_path, sizeof address.sun_path, FOLDER "/socket");
    unlink(address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4)) return fail("Failed to bind the socket.");
    if (daemon(0, 0)) return fail("Failed to daemonize.");
    /* After the fork: locks of this kind are shared by parent and child until both have closed the file. */
    if (sg_hold(live, SG_NVIDIA) || sg_hold(live, SG_PERSISTENCED)) return fail("Failed to hold the device.");
    int fd = open(FOLDER "/nvidia-persistenced.pid", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0) { dprintf(fd, "%d\n", (int)getpid()); close(fd); }
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    syslog(LOG_NOTICE, "Started (%d), %d SIMULATED devices", (int)getpid(), state.gpus);
    while (!stop) pause();
    unlink(FOLDER "/socket");
    unlink(FOLDER "/nvidia-persistenced.pid");
    syslog(LOG_NOTICE, "Shutdown (%d)", (int)getpid());
    return 0;
}
