#!/bin/sh
# Runs once inside the node image (chroot, as root), after rootfs/ was copied over it. Diverts the module tools:
# files in /usr/local/sbin would miss everybody who calls /sbin/modprobe by its path, as kernels and units do.
set -eu
chmod 0755 /usr/lib/simgpu/init /usr/lib/simgpu/launcher /usr/lib/simgpu/runc
ln -sfn /usr/lib/simgpu/runc /usr/local/sbin/runc
# modprobe and lsmod are called often. By content: the files' dates may change on their way into the image.
python3 -m compileall -q --invalidation-mode checked-hash /usr/lib/simgpu/python
mkdir -p /usr/lib/simgpu/real /var/lib/simgpu
for tool in modprobe rmmod insmod lsmod; do
    for path in $(dpkg -L kmod | grep -E "^(/usr)?/s?bin/$tool\$"); do
        flat=$(echo "$path" | tr / -)
        if [ "$(dpkg-divert --truename "$path")" = "$path" ]; then
            dpkg-divert --local --rename --divert "/usr/lib/simgpu/real/${flat#-}" --add "$path" >/dev/null
        fi
        ln -sfn "/usr/lib/simgpu/sbin/$tool" "$path"
    done
done
