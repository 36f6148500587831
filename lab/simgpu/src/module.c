/* A simulated kernel module (gpusmith lab): nothing but the section that modinfo, depmod and modprobe read. */
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define INFO(text) static const char JOIN(info_, __COUNTER__)[] __attribute__((section(".modinfo"), used, aligned(1))) = text

INFO("gpusmith_simulated=1");
INFO("name=" MODULE_NAME);
INFO("version=" DRIVER_VERSION);
INFO("license=" MODULE_LICENSE);
INFO("description=SIMULATED NVIDIA module of the gpusmith lab");
INFO("depends=" MODULE_DEPENDS);
INFO("supported=external");
#ifdef MODULE_DEFECT /* a version of the repository cuda-broken; the simulated kernel knows what it means */
INFO("simgpu_defect=" MODULE_DEFECT);
#endif
#ifdef MODULE_ALIASES
INFO("alias=pci:v000010DEd*sv*sd*bc06sc80i00*");
INFO("alias=pci:v000010DEd*sv*sd*bc03sc02i00*");
INFO("alias=pci:v000010DEd*sv*sd*bc03sc00i00*");
INFO("alias=char-major-195-*");
INFO("firmware=nvidia/" DRIVER_VERSION "/gsp_tu10x.bin");
INFO("firmware=nvidia/" DRIVER_VERSION "/gsp_ga10x.bin");
INFO("parm=NVreg_ResmanDebugLevel:int");
INFO("parm=NVreg_DeviceFileMode:int");
#endif
/* Filled in likewise with the name of the machine that compiled; 80 characters. */
INFO("compiled_on=@COMPILED@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@");
/* Filled in for the running kernel when the package is configured, as DKMS would by compiling; 160 characters. */
INFO("vermagic=@VERMAGIC@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@");
