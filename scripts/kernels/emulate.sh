#!/usr/bin/env bash
# The kernels' tests on an emulated CPU that has AVX-512-VNNI, for machines that have not: Bochs boots a Linux kernel
# whose only program is the tests. A few minutes. Arguments go to the tests [default: all that end in a few minutes].
#
# BOCHS   Bochs 3 or later, built from source (Debian's 2.7 misplaces the state of wide registers, so that Linux turns them off):
#         ./configure --with-nogui --enable-x86-64 --enable-avx --enable-evex --enable-all-optimizations && make
# MODEL   the CPU; sapphire_rapids also has AVX-VNNI [default: sapphire_rapids]
# KERNEL  a Linux kernel with initramfs and serial console built in [default: Debian's cloud kernel]
# LIMIT   seconds after which it is given up [default: 1800]
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [ ! -x "${BOCHS:-}" ]; then
    echo "set BOCHS to a build of Bochs 3 or later with nogui; the head of this script says how to make one" >&2
    exit 1
fi
BOCHS=$(realpath "$BOCHS")
packages=(isolinux syslinux-common xorriso cpio busybox-static bochsbios vgabios)
missing=()
for package in "${packages[@]}"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "this script needs Debian's ${missing[*]}" >&2
        exit 1
    fi
    apt-get update -q >/dev/null && apt-get install -qy --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ -z "${KERNEL:-}" ]; then
    image=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -1)
    (cd "$scratch" && apt-get download -q "$image" >/dev/null 2>&1 && dpkg-deb -x linux-image-*.deb kernel)
    KERNEL=$(echo "$scratch"/kernel/boot/vmlinuz-*)
fi

# One file without libraries; a folder of its own, because the flag makes every dependency another one.
target=${CARGO_TARGET_DIR:-$repository/target}/emulate
tests=$(cd "$repository" && CARGO_TARGET_DIR=$target RUSTFLAGS="-C target-feature=+crt-static" cargo test --release --locked \
    -p demask-kernels --test agree --no-run --target x86_64-unknown-linux-gnu --message-format=json |
    sed -n 's|.*"executable":"\([^"]*\)".*|\1|p' | tail -1)

mkdir -p "$scratch"/guest/{bin,proc,dev} "$scratch"/iso/isolinux
cp /bin/busybox "$scratch/guest/bin"
strip -o "$scratch/guest/agree" "$tests"
# These compute for minutes in plain loops, the same on every CPU.
if [ $# -eq 0 ]; then set -- --skip long_segments --skip exponential_keeps --skip the_peak; fi
cat >"$scratch/guest/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox grep -m1 'model name' /proc/cpuinfo
echo \$(/bin/busybox grep -o -E 'avx2|avx512f|avx512_vnni|avx_vnni' /proc/cpuinfo)
PROPTEST_CASES=${PROPTEST_CASES:-6} RAYON_NUM_THREADS=2 /agree --test-threads 1 $* 2>&1
echo "exit status \$?"
/bin/busybox sleep 2
/bin/busybox poweroff -f
INIT
chmod +x "$scratch/guest/init"
(cd "$scratch/guest" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$scratch/iso/initrd.gz"
cp "$KERNEL" "$scratch/iso/vmlinuz"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$scratch/iso/isolinux"
# Bochs loses its way in five-level page tables.
cat >"$scratch/iso/isolinux/isolinux.cfg" <<'CONFIG'
DEFAULT tests
LABEL tests
  KERNEL /vmlinuz
  INITRD /initrd.gz
  APPEND console=ttyS0 quiet mitigations=off nokaslr no5lvl panic=1 clearcpuid=user_shstk,ibt,fsrm,erms
CONFIG
xorriso -as mkisofs -quiet -o "$scratch/boot.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat \
    -no-emul-boot -boot-load-size 4 -boot-info-table "$scratch/iso" 2>/dev/null

cat >"$scratch/bochsrc" <<CONFIG
config_interface: textconfig
display_library: nogui
memory: guest=512, host=512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
cpu: model=${MODEL:-sapphire_rapids}, count=1, ips=100000000, reset_on_triple_fault=0
ata0-master: type=cdrom, path=boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial
clock: sync=none
log: log
panic: action=fatal
error: action=ignore
CONFIG
# Names are short because Bochs has little room for them.
cd "$scratch"
"$BOCHS" -q -f bochsrc </dev/null >out 2>&1 &
emulator=$!
trap 'kill "$emulator" 2>/dev/null || true; rm -rf "$scratch"' EXIT
deadline=$((SECONDS + ${LIMIT:-1800}))
until grep -q 'exit status' "$scratch/serial" 2>/dev/null; do
    if ! kill -0 "$emulator" 2>/dev/null || [ $SECONDS -gt $deadline ]; then
        cat "$scratch/serial" "$scratch/out" 2>/dev/null | tail -40 >&2
        echo "the tests did not come to an end on the emulated CPU" >&2
        exit 1
    fi
    sleep 2
done
tr -d '\r' <"$scratch/serial" | sed -n '/^model name/,/^exit status/p'
grep -q 'avx512_vnni' "$scratch/serial" && grep -q '^exit status 0' <(tr -d '\r' <"$scratch/serial")
