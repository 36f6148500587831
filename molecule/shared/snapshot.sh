#!/usr/bin/env bash
# What a machine has that roles change: packages with versions and holds, files with their checksums, those of packages among them, services that
# run and units that boots start, the driver's modules.
#   snapshot.sh keep NAME                 remembers it, also over a reboot
#   snapshot.sh compare NAME [PATTERN]... fails, and tells the lines that differ, apart from those that match a pattern (grep -E)
set -euo pipefail

folder=/var/tmp/gpusmith-molecule

units='containerd|kubelet|nvidia|gpusmith'

# Paths below /etc.
of_packages() {
    if command -v dpkg-query >/dev/null; then cat /var/lib/dpkg/info/*.list; else rpm --query --all --list; fi | grep '^/etc/'
}

snapshot() {
    if command -v dpkg-query >/dev/null; then
        # One that is removed and has settings left is as good as gone; the settings are among the files.
        dpkg-query --show --showformat='package ${Package} ${Version} ${db:Status-Abbrev}\n' | grep -v ' rc *$'
        apt-mark showhold | sed 's/^/hold /'
    else
        rpm --query --all --queryformat 'package %{NAME} %{VERSION}-%{RELEASE}\n'
    fi
    # What the system itself writes anew, and users, which packages leave.
    local kept=(! -path /etc/ld.so.cache ! -path /etc/.pwd.lock ! -path '/etc/*group*' ! -path '/etc/*passwd*' ! -path '/etc/*shadow*' ! -path '/etc/sub[ug]id*')
    local places=(/etc /usr/local /opt)
    for place in /run/cdi /run/modprobe.d /var/lib/gpusmith; do [[ ! -e $place ]] || places+=("$place"); done
    find "${places[@]}" -type f "${kept[@]}" -exec sha256sum {} + | sed -E 's/^([0-9a-f]{12})[^ ]*  (.*)/file \2 \1/'
    find "${places[@]}" -type l -printf 'link %p %l\n'
    comm -12 <(find /etc -type f "${kept[@]}" | sort) <(of_packages | sort -u) | sed 's/^/owned /'
    find /etc/systemd/system -path '*.wants/*' -type l -printf 'enabled %f\n' | grep -E "$units" || true
    systemctl list-units --type=service --state=active --plain --no-legend | awk '{print "active " $1}' | grep -E "$units" || true
    find /sys/module -maxdepth 1 -name 'nvidia*' -printf 'module %f\n'
}

mkdir -p "$folder"
case $1 in
    keep) snapshot | sort -u >"$folder/$2" ;;
    compare)
        name=$2
        shift 2
        [[ -s $folder/$name ]] || { echo "Nothing was kept as '$name'." >&2; exit 1; }
        differ=$(diff "$folder/$name" <(snapshot | sort -u) | grep '^[<>]' | grep -Ev "$(IFS='|'; echo "${*:-^$}")" || true)
        [[ -z $differ ]] || { echo "Since '$name' differ:"; echo "$differ"; exit 1; } ;;
esac
