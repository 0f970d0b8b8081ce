# Tries packages of Debian over the root of this machine: debian.sh OLD NEW EXAMPLE CRATES
#
# OLD and NEW are directories of packages. They are installed into a layer in memory above the root,
# in a name space of mounts that ends with this script.
mount -t tmpfs work /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay root -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
mkdir /mnt/root/trial
cp -r "$1" /mnt/root/trial/old
cp -r "$2" /mnt/root/trial/new
cp "$3" /mnt/root/trial/thermostat
cp "$4/nearcall-c/tests/c/streams.c" "$4/nearcall-examples/proto/thermostat.proto" \
    "$4/nearcall-python/examples/thermostat.py" /mnt/root/trial
mount -t proc proc /mnt/root/proc
mount --rbind /sys /mnt/root/sys
mount --rbind /dev /mnt/root/dev
mount -t tmpfs run /mnt/root/run
cat >/mnt/root/trial/house.toml <<'END'
[service.thermostat]
run = "process"
file = "/trial/thermostat"
arguments = ["serve"]
END
cat >/mnt/root/trial/inside.sh <<'END'
cd /trial
fail() { echo "$1" >&2; exit 1; }
expect() { case "$1" in *"$2"*) ;; *) fail "no $2 in: $1" ;; esac; }
quietly() { "$@" >log 2>&1 || fail "$1: $(tail -c 300 log)"; }
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export DEBIAN_FRONTEND=noninteractive PYTHONPATH=/trial HOME=/tmp
install_all() { quietly apt-get install -y -o APT::Sandbox::User=root -o APT::Install-Recommends=0 "$@"; }
call() { nearcall call thermostat Thermostat/SetTarget "{\"celsius\": $1}"; }
wait_call() {
    tries=0
    until called=$(call "$1" 2>why); do
        tries=$((tries + 1))
        [ "$tries" -le 100 ] || fail "$(cat why)"
        sleep 0.1
    done
}

find /usr /etc /var/lib -xdev | sort >before
install_all ./old/*.deb
mkdir -p /etc/nearcall
cp house.toml /etc/nearcall/house.toml
nearcall-host /etc/nearcall/house.toml >host.log 2>&1 &
host=$!
wait_call 20
# Upgraded while it runs: the host goes on, and new programs ask it.
install_all ./new/*.deb
case "$(dpkg-query -W -f '${Version}' nearcall)" in 0.0.1-*) fail "it was not upgraded" ;; esac
expect "$(call 21)" 20
quietly nearcall status
quietly nearcall restart thermostat
wait_call 22
kill "$host"
wait "$host"
# What systemd does after an upgrade, if it is asked to.
nearcall-host /etc/nearcall/house.toml >host.log 2>&1 &
host=$!
wait_call 23
kill "$host"
wait "$host"
rm -r /etc/nearcall
quietly systemd-analyze verify --man=no nearcall-host@house.service

expect "$(nearcall bench latency --quick --mechanism pipe --size 8 --out /trial/run.json)" pipe
for page in nearcall nearcall-bench-latency nearcall-host; do
    expect "$(MANPAGER=cat man "$page")" SYNOPSIS
done
expect "$(bash -c '. /usr/share/bash-completion/completions/nearcall; complete -p nearcall')" nearcall
quietly cc -std=c11 -pthread -o streams streams.c $(pkg-config --cflags --libs nearcall)
quietly ./streams misuse
quietly cc -std=c11 -pthread -o streams-static streams.c -Wl,-Bstatic -lnearcall -Wl,-Bdynamic -lm -lgcc_s
quietly ./streams-static misuse

quietly protoc -I. --python_out=. thermostat.proto
quietly nearcall gen thermostat.proto --lang python --out-dir .
python3 thermostat.py serve unix:@nearcall-package-trial >served 2>&1 &
server=$!
tries=0
until python3 thermostat.py set 21.5 unix:@nearcall-package-trial >said 2>why; do
    tries=$((tries + 1))
    [ "$tries" -le 100 ] || fail "$(cat why served)"
    sleep 0.1
done
expect "$(cat said)" 18.0
kill "$server"
wait "$server" || true

dpkg -L nearcall libnearcall0 libnearcall-dev python3-nearcall | sort -u >installed
quietly dpkg --purge nearcall libnearcall0 libnearcall-dev python3-nearcall
find /usr /etc /var/lib -xdev | sort >after
left=$(comm -13 before after | grep nearcall | head -5)
[ -z "$left" ] || fail "these are left: $left"
END
chroot /mnt/root sh -eu /trial/inside.sh
echo tried:
echo "installed, upgraded below a running host, removed; thermostat, bench latency, man, C shared and static, Python"
