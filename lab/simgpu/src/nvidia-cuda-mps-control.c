/*
 * nvidia-cuda-mps-control of the simulated driver (gpusmith lab): the control daemon of MPS (-d), and commands to it by standard
 * input, as NVIDIA's device plugin sends them. What it does for a program: a server runs, memory is limited. That programs
 * compute on a GPU at the same time, in what share of it and with what isolation, is not simulated.
 *
 * A program of another user waits until the programs of the server's user have ended, as the man page of the real one has it.
 */
#include "state.h"

#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <time.h>

#define MOST 48 /* clients of a server */
#define SLOTS (MOST + 16)

typedef struct { int fd, client, served; struct ucred who; } connection;

static connection all[SLOTS];
static int count, quits, log_fd = -1;
static pid_t server;
static uid_t server_user;
static long limit_mib[SG_MAX_GPUS];
static double percentage = 100.0;
static volatile sig_atomic_t ended;
static void on_end(int number) { (void)number; ended = 1; }

static void say(const char *format, ...) {
    char text[512], stamp[32];
    time_t now = time(NULL);
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", localtime(&now));
    if (log_fd >= 0) dprintf(log_fd, "[%s.000 Control %5d] %s (SIMULATED)\n", stamp, (int)getpid(), text);
}

static void tell(int fd, const char *text) {
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) return; /* it has ended */
}

/* --- clients --------------------------------------------------------------------------------------------- */

static int clients(void) {
    int found = 0;
    for (int i = 0; i < count; i++) found += all[i].served;
    return found;
}

static void end_server(void) {
    if (server <= 0) return;
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    say("Server %d exited with status 0", (int)server);
    server = 0;
}

static void start_server(uid_t user) {
    pid_t parent = getpid();
    if (server > 0 && !waitpid(server, NULL, WNOHANG) && server_user == user) return;
    end_server();
    server = fork();
    if (!server) {
        signal(SIGTERM, SIG_DFL);
        if (setuid(user) || prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent) _exit(1);
        execlp("nvidia-cuda-mps-server", "nvidia-cuda-mps-server", (char *)NULL);
        _exit(127);
    }
    server_user = user;
    say("Starting new server %d for user %u", (int)server, user);
}

/* Give those what they wait for who can have it. */
static void serve(void) {
    for (int i = 0; i < count; i++) {
        connection *c = &all[i];
        char answer[512] = "served";
        if (!c->client || c->served || quits || clients() == MOST) continue;
        if (clients() && c->who.uid != server_user) continue;
        start_server(c->who.uid);
        for (int gpu = 0; gpu < SG_MAX_GPUS; gpu++) {
            size_t used = strlen(answer);
            if (limit_mib[gpu]) snprintf(answer + used, sizeof answer - used, " %d:%ld", gpu, limit_mib[gpu]);
        }
        strcat(answer, "\n");
        c->served = 1;
        say("NEW CLIENT %d from user %u: Server already exists", (int)c->who.pid, c->who.uid);
        tell(c->fd, answer);
    }
}

/* --- commands -------------------------------------------------------------------------------------------- */

/* MiB of 20G, 20480M or bytes. */
static long mib_of(const char *text) {
    long value = sg_number(text);
    char unit = text[strlen(text) - 1];
    return unit == 'G' || unit == 'g' ? value * 1024 : unit == 'M' || unit == 'm' ? value : value >> 20;
}

static void obey(int fd, char *line) {
    char out[256] = "", *save = NULL, *words[4] = {NULL};
    int n = 0;
    for (char *word = strtok_r(line, " \t\r", &save); word && n < 4; word = strtok_r(NULL, " \t\r", &save)) words[n++] = word;
    if (!n) return;
    long index = n > 1 ? sg_number(words[1]) : -1;
    int of_gpu = index >= 0 && index < SG_MAX_GPUS;
    say("User command: %s", words[0]);
    if (!strcmp(words[0], "quit")) quits = n > 1 && !strcmp(words[1], "-f") ? 2 : 1;
    else if (!strcmp(words[0], "get_default_active_thread_percentage")) snprintf(out, sizeof out, "%.1f\n", percentage);
    else if (!strcmp(words[0], "set_default_active_thread_percentage") && n == 2) {
        percentage = (double)index;
        snprintf(out, sizeof out, "%.1f\n", percentage);
    } else if (!strcmp(words[0], "set_default_device_pinned_mem_limit") && n == 3 && of_gpu) limit_mib[index] = mib_of(words[2]);
    else if (!strcmp(words[0], "get_default_device_pinned_mem_limit") && n == 2 && of_gpu) snprintf(out, sizeof out, "%ldM\n", limit_mib[index]);
    else if (!strcmp(words[0], "get_server_list")) { if (server > 0) snprintf(out, sizeof out, "%d\n", (int)server); }
    else if (!strcmp(words[0], "get_client_list")) {
        for (int i = 0; i < count; i++) {
            if (!all[i].served) continue;
            snprintf(out, sizeof out, "%d\n", (int)all[i].who.pid);
            tell(fd, out);
        }
        *out = 0;
    } else snprintf(out, sizeof out, "The SIMULATED control daemon of the gpusmith lab does not know '%s'.\n", words[0]);
    tell(fd, out);
}

/* --- daemon ---------------------------------------------------------------------------------------------- */

/* What a connection says. One that commands is told when it is done, which of 'quit' is when the daemon ends. */
static int hear(connection *c) {
    char text[4096], *save = NULL;
    ssize_t got = recv(c->fd, text, sizeof text - 1, 0);
    if (got <= 0) return -1;
    text[got] = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (!strcmp(line, "client")) c->client = 1;
        else obey(c->fd, line);
    }
    return c->client || quits ? 0 : -1;
}

static int attend(int listener) {
    while (!ended && !(quits && (quits == 2 || !clients()))) {
        struct pollfd waiting[SLOTS + 1] = {{.fd = listener, .events = POLLIN}};
        int heard = count;
        for (int i = 0; i < heard; i++) waiting[i + 1] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
        if (poll(waiting, (nfds_t)heard + 1, -1) < 0) continue;
        for (int i = heard - 1; i >= 0; i--) {
            if (!waiting[i + 1].revents || !hear(&all[i])) continue;
            if (all[i].served) say("Client %d disconnected", (int)all[i].who.pid);
            close(all[i].fd);
            all[i] = all[--count];
        }
        if (waiting[0].revents) {
            connection new = {.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
            socklen_t size = sizeof new.who;
            if (new.fd >= 0 && count < SLOTS && !getsockopt(new.fd, SOL_SOCKET, SO_PEERCRED, &new.who, &size)) all[count++] = new;
            else if (new.fd >= 0) close(new.fd);
        }
        serve();
    }
    return 0;
}

static int run_daemon(void) {
    static sg_state state;
    struct sockaddr_un address;
    char path[sizeof address.sun_path + 64];
    const char *logs = getenv("CUDA_MPS_LOG_DIRECTORY");
    int live = sg_open(O_RDONLY);
    if (live < 0 || sg_read(live, &state) || !state.loaded) { puts("Cannot find an NVIDIA driver (SIMULATED)"); return 1; }
    close(live);
    sg_mps_address(&address);
    snprintf(path, sizeof path, "%s_lock", address.sun_path);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0) { printf("Cannot write to '%s': %s\n", path, strerror(errno)); return 1; }
    if (flock(lock, LOCK_EX | LOCK_NB)) { puts("An instance of this daemon is already running"); return 1; }
    unlink(address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, SLOTS)) {
        printf("Failed to bind '%s': %s\n", address.sun_path, strerror(errno));
        return 1;
    }
    chmod(address.sun_path, 0777); /* programs of all users connect */
    snprintf(path, sizeof path, "%s/control.log", logs && *logs ? logs : "/var/log/nvidia-mps");
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (daemon(0, 0)) return 1;
    char *tail = strrchr(address.sun_path, '/');
    snprintf(path, sizeof path, "%.*s/nvidia-cuda-mps-control.pid", (int)(tail - address.sun_path), address.sun_path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0) { dprintf(fd, "%d\n", (int)getpid()); close(fd); }
    struct sigaction action = {.sa_handler = on_end};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    say("Start");
    attend(listener);
    end_server();
    unlink(address.sun_path);
    unlink(path);
    say("Exit");
    return 0;
}

/* Sends what is on standard input, and prints the answer. */
static int command(void) {
    char text[4096];
    size_t used = 0;
    ssize_t got;
    while (used < sizeof text - 2 && (got = read(0, text + used, sizeof text - 2 - used)) > 0) used += (size_t)got;
    int fd = sg_mps_connect();
    if (fd < 0) {
        printf("Cannot find MPS control daemon process\n");
        return 1;
    }
    if (!used) return 0;
    if (text[used - 1] != '\n') text[used++] = '\n';
    text[used] = 0;
    tell(fd, text);
    while ((got = read(fd, text, sizeof text)) > 0) fwrite(text, 1, (size_t)got, stdout);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 1) return command();
    if (!strcmp(argv[1], "-d")) return run_daemon();
    if (!strcmp(argv[1], "--version")) {
        printf("nvidia-cuda-mps-control %s (SIMULATED, gpusmith lab)\n", DRIVER_VERSION);
        return 0;
    }
    printf("The SIMULATED nvidia-cuda-mps-control of the gpusmith lab does not know '%s'.\n", argv[1]);
    return 1;
}
