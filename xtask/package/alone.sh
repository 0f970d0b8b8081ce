# Tries programs in a root that has nothing else: alone.sh ROOT EXAMPLE linked|static
#
# ROOT has a `usr`; what its programs are linked to is added from this machine, or has to be nothing
# if they are static. All of it lies in memory, in a name space of mounts that ends with this script.
mount -t tmpfs root /mnt
cp -a "$1/usr" /mnt/usr
cp "$2" /mnt/usr/bin/thermostat
for program in /mnt/usr/bin/*; do
    ldd "$program" 2>/dev/null | grep -o '/[^ ]*' || true
done | sort -u | while read -r file; do
    mkdir -p "/mnt$(dirname "$file")"
    cp -L "$file" "/mnt$file"
done
others=$(find /mnt/lib* -type f 2>/dev/null | wc -l)
if [ "$3" = static ] && [ "$others" -gt 0 ]; then
    echo "the programs are not static: they need $(ls /mnt/lib*)" >&2
    exit 1
fi
mkdir -p /mnt/proc /mnt/dev /mnt/run /mnt/tmp /mnt/sys
mount -t proc proc /mnt/proc
mount -t sysfs sys /mnt/sys
mount -t tmpfs dev /mnt/dev
mkdir /mnt/dev/shm /mnt/dev/mqueue
mknod /mnt/dev/null c 1 3
mknod /mnt/dev/urandom c 1 9
mount -t mqueue mqueue /mnt/dev/mqueue
inside='env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp chroot /mnt'

$inside /usr/bin/nearcall --version >/mnt/tmp/version
$inside /usr/bin/nearcall-host --version >>/mnt/tmp/version
$inside /usr/bin/thermostat serve >/mnt/tmp/log &
server=$!
call() { $inside /usr/bin/nearcall call thermostat Thermostat/SetTarget "{\"celsius\": $1}"; }
tries=0
until called=$(call 21.5 2>/mnt/tmp/why); do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ]; then
        cat /mnt/tmp/why >&2
        exit 1
    fi
    sleep 0.1
done
expect() { case "$1" in *"$2"*) ;; *) echo "no $2 in: $1" >&2; exit 1 ;; esac; }
expect "$called" 18
expect "$(call 22)" 21.5
kill "$server"
wait "$server"
bench=$($inside /usr/bin/nearcall bench latency --quick --mechanism pipe,shm-futex --size 8 --out /tmp/run.json)
expect "$bench" pipe
expect "$bench" shm-futex
[ -s /mnt/tmp/run.json ]
for page in nearcall nearcall-bench nearcall-host; do
    expect "$(MANPAGER=cat man -M /mnt/usr/share/man "$page")" SYNOPSIS
done
echo tried:
echo "in a root with $others other files: $(head -1 /mnt/tmp/version | cut -d' ' -f1,2), thermostat, bench latency, man"
