#!/bin/bash
# Boots kernels from Debian packages under qemu and runs a script on each, in memory, with nothing installed.
#
#   boot.sh [options] GUEST.sh KERNEL...
#
# KERNEL is SUITE (bookworm, trixie-backports, sid, ...: its newest linux-image-cloud-amd64), SUITE/PACKAGE
# (trixie/linux-image-amd64, trixie-backports/linux-image-6.17.13+deb13-cloud-amd64), or a vmlinuz file.
# GUEST.sh runs as root in busybox sh, in /, with /proc, /sys, /dev, /tmp and a user nobody; its output is printed, its
# exit code is the guest's.
#   -f FILE[:PATH]  put FILE (a static binary, say) into the guest, as PATH (else /bin/NAME); may be repeated
#   -e NAME=VALUE  set this variable for GUEST.sh; may be repeated
#   -o FILE  add what the guests print to FILE, too
#   -A arm64  a guest of this architecture (amd64): FILEs must be of it; packages linux-image-cloud-arm64, linux-image-arm64-16k, ...
#   -m MIB  memory (1024)    -c N  CPUs (2)    -t SECONDS  time limit of a boot (300)
#   -a 'transparent_hugepage=never mitigations=off'  more of the kernel's command line
#   -q '-cpu Skylake-Client'  more options of qemu, where they are said twice they win
#   -d DIR  where packages and kernels are kept (${XDG_CACHE_HOME:-~/.cache}/kernels); safe to delete
# Exit code: 0 all guests said 0; 1 one did not, or hung; 2 wrong usage; 3 none failed, but a kernel could not be had, or a
# tool is missing.
# Needs apt, dpkg-deb, qemu-system-x86_64 (qemu-system-x86) or qemu-system-aarch64 (qemu-system-arm), a static busybox
# (busybox-static; for another architecture it is fetched as the kernels are). Uses /dev/kvm only with KVM=1.
set -euo pipefail

wrong() { echo "boot.sh: $*" >&2; exit 2; }
lacks() { echo "boot.sh: $*" >&2; exit 3; }

mem=1024 cpus=2 limit=300 append='' more=() files=() variables=() copy=/dev/null
arch=$(dpkg --print-architecture 2>/dev/null) || lacks "dpkg is missing: kernels are had from Debian's packages"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/kernels
while getopts A:f:e:o:m:c:t:a:q:d: option; do
    case $option in
        A) arch=$OPTARG ;; f) files+=("$OPTARG") ;; e) variables+=("$OPTARG") ;; o) copy=$OPTARG ;; m) mem=$OPTARG ;;
        c) cpus=$OPTARG ;; t) limit=$OPTARG ;; a) append=$OPTARG ;; q) read -ra more <<<"$OPTARG" ;; d) dir=$OPTARG ;; *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || wrong "usage: ${0##*/} [options] GUEST.sh KERNEL... (the head of this file tells more)"
guest=$1; shift
case $arch in
    amd64) qemu=(qemu-system-x86_64) console=ttyS0 out=ttyS1 ;;
    arm64) qemu=(qemu-system-aarch64 -machine virt) console=ttyAMA0 out=ttyAMA0 ;;
    *) wrong "architecture $arch: amd64 and arm64 are known" ;;
esac
for tool in apt-get dpkg-deb busybox cpio "${qemu[0]}"; do
    command -v "$tool" >/dev/null || lacks "$tool is missing"
done
! ldd "$(command -v busybox)" 2>&1 | grep -q '=>' || lacks "busybox is not static (the package busybox-static is)"
mkdir -p "$dir/$arch"
dir=$(cd "$dir/$arch" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# apt with lists of its own, for one suite of the mirror that this machine is configured with; the system's are untouched.
apt() { # apt SUITE apt-get|apt-cache ARGUMENTS...
    local suite=$1 tool=$2; shift 2
    timeout 300 "$tool" -q -o Dir::Etc::sourcelist="$dir/$suite.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User= \
        -o Dir::State::lists="$dir/$suite.lists" -o Dir::Cache="$dir/$suite.cache" -o Acquire::Languages=none \
        -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 -o Acquire::Retries=2 \
        -o APT::Architecture="$arch" -o APT::Architectures="$arch" "$@"
}

# Fetches a suite's lists, once a day; where that fails, older ones will do.
lists() {
    local suite=$1 mirror
    [ -z "$(find "$dir/$suite.lists" -maxdepth 1 -name '*Release' -mtime -1 2>/dev/null)" ] || return 0
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
        grep -m1 '/debian/*$') || { echo "no Debian mirror is configured" >&2; return 1; }
    mkdir -p "$dir/$suite.lists/partial" "$dir/$suite.cache/archives/partial"
    echo "deb $mirror $suite main" >"$dir/$suite.list"
    apt "$suite" apt-get update -o APT::Update::Error-Mode=any >"$dir/$suite.log" 2>&1 && return
    [ -n "$(find "$dir/$suite.lists" -maxdepth 1 -name '*Packages*' 2>/dev/null)" ] && return
    grep '^[EW]:' "$dir/$suite.log" >&2
    return 1
}

depends() { # depends SUITE PACKAGE PATTERN: the package of this name that PACKAGE depends on
    apt "$1" apt-cache depends --important "$2" | sed -nE "s/^ +Depends: ($3)$/\1/p" | head -1
}

vmlinuz() { # vmlinuz KERNEL: prints the path of its image
    [ ! -f "$1" ] || { echo "$1"; return; }
    local suite=${1%%/*} package=linux-image-cloud-$arch real part to
    [ "$suite" = "$1" ] || package=${1#*/}
    lists "$suite" || return 1
    real=$(depends "$suite" "$package" 'linux-image-[0-9].*') # of a metapackage
    real=${real:-$package} to=$dir/$real
    if [ ! -d "$to" ]; then
        part=$(depends "$suite" "$real" 'linux-binary-.*') # where newer packages have the image
        mkdir "$work/package"
        (cd "$work/package" && apt "$suite" apt-get download "${part:-$real}" >&2) || return 1
        dpkg-deb --fsys-tarfile "$work/package"/*.deb | tar -x --wildcards -C "$work/package" '*vmlinuz*' || return 1
        # All at once: whoever is stopped here leaves no folder without an image.
        mkdir "$work/image" && find "$work/package" -type f -name 'vmlinuz*' -exec mv {} "$work/image" \; && mv -T "$work/image" "$to"
        rm -r "$work/package"
    fi
    find "$to" -name 'vmlinuz*' | head -1
}

static_busybox() { # static_busybox TO: for the guest's architecture
    if [ "$arch" = "$(dpkg --print-architecture)" ]; then
        cp "$(command -v busybox)" "$1"
        return
    fi
    if [ ! -x "$dir/busybox" ]; then
        local suite
        suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
        lists "$suite" && mkdir "$work/busybox" && (cd "$work/busybox" && apt "$suite" apt-get download busybox-static >&2) || return 1
        dpkg-deb --fsys-tarfile "$work/busybox"/*.deb | tar -x -C "$work/busybox" --wildcards '*bin/busybox'
        find "$work/busybox" -name busybox -type f -exec mv {} "$dir/busybox" \;
    fi
    cp "$dir/busybox" "$1"
}

# Two of these share the cache: one after the other fetches what both need.
exec 9>"$dir/lock"
flock 9

# The initial file system: busybox, the files, the script, and an init that runs it on the second serial port.
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc,root}
static_busybox "$root/bin/busybox" || lacks "no static busybox for $arch"
for file in "${files[@]}"; do
    from=${file%%:*} to=/bin/${from##*/}
    [ "$from" = "$file" ] || to=${file#*:}
    install -D "$from" "$root/$to" || wrong "cannot read $from"
done
install -m 755 "$guest" "$root/guest"
printf '%s\n' root:x:0:0::/root:/bin/sh nobody:x:65534:65534::/tmp:/bin/sh >"$root/etc/passwd"
printf '%s\n' root:x:0: nogroup:x:65534: >"$root/etc/group"
: >"$root/environment"
for variable in "${variables[@]}"; do
    printf 'export %s=%q\n' "${variable%%=*}" "${variable#*=}" >>"$root/environment"
done
sed "s/@out@/$out/" >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm; mount -t devpts pts /dev/pts; mount -t tmpfs tmp /tmp; mount -t tmpfs shm /dev/shm
ln -sf /proc/self/fd /dev/fd
ip link set lo up 2>/dev/null
stty -F /dev/@out@ raw
. /environment
{ (cd / && /bin/busybox sh /guest); printf '\nguest-exit: %s\n' $?; } </dev/null 2>&1 | cat >/dev/@out@
sleep 0.2; poweroff -f
END
chmod 755 "$root/init"
(cd "$root" && find . | cpio -o -H newc --owner 0:0 --quiet) | gzip -1 >"$work/initrd"

# Linux 6.12 was seen to die of a double fault at cmpxchg16b in __kmalloc (qemu 7.2, as on each CPU model that has it); no kernel that runs
# on hardware does. All of them do without the instruction.
# Linux patches its own code while it runs (static keys: opening a perf event is enough). qemu before 8.1 can translate a
# page while another CPU writes to it, and then goes on running the breakpoint that stands there during a patch: "Oops: int3".
# Such a guest says nothing about what was tried on it, and is booted again.
accelerate=(-accel tcg,thread=multi -cpu max)
[ "$arch" != amd64 ] || accelerate=(-accel tcg,thread=multi -cpu max,cx16=off)
[ "${KVM:-}" != 1 ] || accelerate=(-accel kvm -cpu host)
bad=0
for kernel in "$@"; do
    flock 9
    image=$(vmlinuz "$kernel") || image=
    flock -u 9
    if [ -z "$image" ]; then
        echo "==> $kernel: no such kernel can be had here"
        [ $bad = 1 ] || bad=3
        continue
    fi
    echo "==> $kernel (${image#"$dir"/}), $arch, $cpus CPUs, $mem MiB${append:+, $append}" | tee -a "$copy"
    serial=(-serial "file:$work/console" -serial stdio)
    [ "$console" != "$out" ] || { serial=(-serial stdio); : >"$work/console"; }
    said=$(stat -Lc %s "$copy")
    for boot in 1 2 3; do
        SECONDS=0
        # Nothing that a guest says may stop its output, nor its end be missed.
        timeout -k 5 "$limit" "${qemu[@]}" "${accelerate[@]}" -smp "$cpus" -m "$mem" -nodefaults -display none -no-reboot "${more[@]}" \
            -kernel "$image" -initrd "$work/initrd" -append "console=$console panic=-1 quiet $append" \
            "${serial[@]}" </dev/null 9>&- | tr -d '\r' | tee "$work/output" | sed -u '/^guest-exit: [0-9]*$/d' | tee -a "$copy" || true
        code=$(sed -nE 's/^guest-exit: ([0-9]+).*/\1/p' "$work/output" | tail -1)
        grep -aE 'BUG|WARNING|Oops|panic|Out of memory|blocked for more' "$work/console" | sed 's/^/    kernel: /' || true
        { [ -z "$code" ] && [ "${KVM:-}" != 1 ] && [ $boot -lt 3 ] && grep -aq 'Oops: int3' "$work/console"; } || break
        echo "==> $kernel: booted again, it died of what qemu translated while Linux patched it (Oops: int3)"
        [ ! -f "$copy" ] || truncate -s "$said" "$copy"
    done
    [ -n "$code" ] || tail -n 15 "$work/console" | sed 's/^/    console: /'
    [ -n "$code" ] || [ $SECONDS -lt "$limit" ] || code="no end within $limit s"
    echo "<== $kernel: exit code ${code:-unknown: the guest died}, $SECONDS s" | tee -a "$copy"
    [ "$code" = 0 ] || bad=1
done
exit $bad
