/* The process that holds a pod's namespaces: it waits to be ended, and reaps what is handed to it as process 1. */
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) {
    (void)number;
    _exit(0);
}

static void reap(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    struct sigaction ending = {.sa_handler = end};
    struct sigaction reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
    if (sigaction(SIGINT, &ending, NULL) != 0 || sigaction(SIGTERM, &ending, NULL) != 0 ||
        sigaction(SIGCHLD, &reaping, NULL) != 0) {
        return 1;
    }
    for (;;) {
        pause();
    }
}
