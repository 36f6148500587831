/* A library that is part of a real driver and has nothing to simulate (gpusmith lab). */
__attribute__((visibility("default"))) const char gpusmith_simulated[] = "gpusmith simulated GPU, driver " DRIVER_VERSION;
