#!/bin/sh
# /etc/kernel/prerm.d/dkms, as DKMS has it on Debian and Ubuntu (dell/dkms 3.2.2, debian_kernel_prerm.d).
if command -v dkms >/dev/null; then
    dkms kernel_prerm -k "$1"
fi
exit 0
