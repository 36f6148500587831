#!/bin/sh
# Runs once in the image of a machine that rpm and dnf manage, after everything else: the package manager that made it is taken out.
set -eu
mkdir -p /etc/pki/rpm-gpg /etc/sysconfig /etc/yum.repos.d
# Alternatives live on without dpkg, where EL has them.
mkdir -p /usr/lib/gpulab /var/lib/alternatives
mv /usr/bin/update-alternatives /usr/lib/gpulab/
cp -a /var/lib/dpkg/alternatives/. /var/lib/alternatives/
cat >/usr/sbin/update-alternatives <<'EOF'
#!/bin/sh
exec /usr/lib/gpulab/update-alternatives --admindir /var/lib/alternatives "$@"
EOF
chmod 0755 /usr/sbin/update-alternatives
ln -s update-alternatives /usr/sbin/alternatives

rm -rf /usr/bin/dpkg* /usr/bin/apt* /usr/bin/deb-systemd-* /usr/sbin/dpkg-* /usr/share/dpkg /usr/lib/dpkg /usr/lib/apt /var/lib/dpkg \
    /var/lib/apt /var/cache/apt /etc/apt /etc/dpkg /etc/debian_version /etc/cron.daily/apt-compat /etc/cron.daily/dpkg \
    /etc/systemd/system/timers.target.wants/apt-* /etc/systemd/system/timers.target.wants/dpkg-* \
    /usr/lib/systemd/system/apt-* /usr/lib/systemd/system/dpkg-* /lib/systemd/system/apt-* /lib/systemd/system/dpkg-*

rpm --initdb
work=$(mktemp -d)
HOME=$work rpmbuild -bb --quiet --define "_topdir $work" --define "_dbpath $work/db" /usr/lib/gpulab/user-land.spec
rpm --install --nosignature "$work"/RPMS/noarch/*.rpm
rm -rf "$work" /usr/lib/gpulab/user-land.spec
ldconfig
