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

# The trust store is where EL has it (package ca-certificates), and every program here reads that one: those of the user land look in
# /etc/ssl/certs, which is a link on EL as well.
mkdir -p /usr/share/pki/ca-trust-source /etc/pki/ca-trust/source/anchors /etc/pki/ca-trust/extracted/pem /etc/pki/tls/certs
mv /etc/ssl/certs/ca-certificates.crt /usr/share/pki/ca-trust-source/mozilla.pem
rm -rf /etc/ssl/certs /usr/sbin/update-ca-certificates /etc/ca-certificates /etc/ca-certificates.conf
for name in cert.pem certs/ca-bundle.crt certs/ca-certificates.crt; do
    ln -s /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem "/etc/pki/tls/$name"
done
ln -s ../pki/tls/certs /etc/ssl/certs
ln -sf /etc/pki/tls/cert.pem /usr/lib/ssl/cert.pem
update-ca-trust extract

rpm --initdb
work=$(mktemp -d)
HOME=$work rpmbuild -bb --quiet --define "_topdir $work" --define "_dbpath $work/db" /usr/lib/gpulab/user-land.spec
rpm --install --nosignature "$work"/RPMS/noarch/*.rpm
rm -rf "$work" /usr/lib/gpulab/user-land.spec
ldconfig
