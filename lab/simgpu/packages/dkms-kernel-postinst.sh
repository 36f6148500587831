#!/bin/sh
# /etc/kernel/postinst.d/dkms and /etc/kernel/header_postinst.d/dkms, as DKMS has them on Debian and Ubuntu (dell/dkms 3.2.2,
# debian_kernel_postinst.d and dkms_autoinstaller): a kernel that came gets what is known, if its headers are there.
kernel=$1
# It is a configuration file, which outlives a package that is removed.
command -v dkms >/dev/null || exit 0
if [ ! -d "/lib/modules/$kernel/build/include" ]; then
    echo "Automatic installation of modules for kernel $kernel was skipped since its kernel headers do not seem to be installed."
    exit 0
fi
exec dkms autoinstall --kernelver "$kernel"
