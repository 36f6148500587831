/* nvidia-cuda-mps-server of the simulated driver (gpusmith lab): has all GPUs open for the clients of MPS, and computes nothing. */
#include "state.h"

#include <signal.h>

int main(int argc, char **argv) {
    static sg_state state;
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        printf("nvidia-cuda-mps-server %s (SIMULATED, gpusmith lab)\n", DRIVER_VERSION);
        return 0;
    }
    int live = sg_open(O_RDONLY);
    if (live < 0 || sg_read(live, &state) || !state.loaded || strcmp(state.version, DRIVER_VERSION)) return 1;
    for (int i = 0; i < state.gpus; i++) {
        char path[32];
        snprintf(path, sizeof path, "/dev/nvidia%d", state.gpu[i].minor);
        if (!sg_device(path)) sg_show(path);
    }
    sg_show("/dev/nvidiactl");
    sg_show("/dev/nvidia-uvm");
    if (sg_hold(live, SG_NVIDIA) || sg_hold(live, SG_UVM)) return 1;
    signal(SIGPIPE, SIG_IGN);
    for (;;) pause(); /* until the control daemon ends it */
}
