#!/bin/sh
# /usr/lib/kernel/install.d/40-dkms.install, as DKMS has it on EL (dell/dkms 3.2.2, redhat_kernel_install.d): kernel-install starts it when a
# kernel comes or goes. What does not build keeps no kernel from being installed.
case $1 in
    add) dkms kernel_postinst --kernelver "$2" ;;
    remove) dkms kernel_prerm --kernelver "$2" ;;
esac
exit 0
