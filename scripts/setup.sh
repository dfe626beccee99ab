#!/bin/sh
# Installs what this machine lacks: `setup.sh run` for the demonstration, `setup.sh test` for the tests, `setup.sh
# bench` for the benchmarks, `setup.sh jdk` and `setup.sh maven` for the Java part. Downloads nothing if nothing is
# missing, and starts no service.
set -eu
cd "$(dirname "$0")/.."

purpose=${1:-test}
tools=$PWD/target/tools

fail() {
    echo "setup: $*" >&2
    exit 1
}

# Prints the Debian packages for the commands, or files, that are missing.
missing_packages() {
    PATH=$PATH:/usr/sbin:/sbin
    for pair in $1; do
        case $pair in
        /*) [ -e "${pair%%:*}" ] ;;
        *) command -v "${pair%%:*}" >/dev/null ;;
        esac || echo "${pair#*:}"
    done | sort -u | tr '\n' ' '
}

install_packages() {
    packages=$(missing_packages "$1")
    [ -n "$packages" ] || return 0
    [ "$(id -u)" = 0 ] ||
        fail "missing packages; install them with: sudo apt-get install --no-install-recommends $packages"
    command -v apt-get >/dev/null || fail "missing, under their Debian names: $packages"
    echo "setup: installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086 # a list
    apt-get install -y -qq --no-install-recommends $packages >/dev/null
}

# pjdfstest and fsx, outside test suites that are Rust packages.
install_suite() {
    [ -x "$tools/bin/$1" ] && return 0
    echo "setup: building $1 $2"
    cargo install --quiet --locked --version "$2" --root "$tools" "$1"
}

need_fuse_device() {
    [ -c /dev/fuse ] && return 0
    [ "$(id -u)" = 0 ] || fail "there is no /dev/fuse; load the module with: sudo modprobe fuse"
    modprobe fuse 2>/dev/null || true
    [ -c /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229
}

# Emulated PM lives in /dev/shm, which containers often keep at 64 MiB.
need_shared_memory() {
    need_kib=$1
    have_kib=$(df --output=size /dev/shm | tail -n 1)
    [ "$have_kib" -ge "$need_kib" ] && return 0
    echo "setup: /dev/shm holds only $((have_kib / 1024)) MiB, raising it to $((need_kib / 1024)) MiB"
    mount -o "remount,size=${need_kib}k" /dev/shm ||
        fail "/dev/shm needs $((need_kib / 1024)) MiB (in a container: --shm-size)"
}

# The package makes a database of its own and starts its service, unless it is told not to.
install_postgresql() {
    settings=/etc/postgresql-common/createcluster.conf
    if [ ! -e /usr/lib/postgresql ] && [ "$(id -u)" = 0 ] && [ ! -e $settings ]; then
        mkdir -p "${settings%/*}"
        echo "create_main_cluster = false" >$settings
    fi
    install_packages "/usr/lib/postgresql:postgresql"
}

# JDK 25 is a package of some Debian releases only.
install_jdk() {
    package=openjdk-25-jdk-headless
    elsewhere="unpack a JDK 25 (such as Eclipse Temurin's, https://adoptium.net) in /opt, or let JAVA_HOME name one"
    command -v apt-get >/dev/null || fail "the Java part needs a JDK 25: install one, or $elsewhere"
    [ "$(id -u)" != 0 ] || apt-get update -qq
    [ -n "$(apt-cache search --names-only "^$package\$")" ] ||
        fail "the Java part needs a JDK 25, and this machine's package sources have none: $elsewhere"
    install_packages "jdk-25:$package"
}

case $purpose in
run | test | bench)
    command -v cargo >/dev/null || fail "cargo is not in PATH; install Rust from https://rustup.rs"
    # rust-toolchain.toml names a compiler, and rustup may have been told not to fetch one by itself.
    cargo --version >/dev/null 2>&1 || rustup toolchain install || fail "the compiler of rust-toolchain.toml is missing"
    need_fuse_device
    ;;
esac
case $purpose in
run)
    install_packages "fusermount3:fuse3 git:git cc:build-essential sqlite3:sqlite3"
    ;;
test)
    install_packages "fusermount3:fuse3 git:git cc:build-essential make:make tar:tar sqlite3:sqlite3 fio:fio
        gradle:gradle pkg-config:pkg-config python3:python3
        db_bench:rocksdb-tools ldb:rocksdb-tools sst_dump:rocksdb-tools
        mariadbd:mariadb-server-core mariadb:mariadb-client-core
        setfacl:acl setfattr:attr mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs
        curl:curl ip:iproute2 nsenter:util-linux script:bsdutils pgrep:procps"
    for component in clippy fmt; do
        cargo "$component" --version >/dev/null 2>&1 ||
            rustup component add "$(echo $component | sed 's/^fmt$/rustfmt/')"
    done
    install_suite pjdfstest 0.2.2
    install_suite fsx 0.3.2
    need_shared_memory $((1024 * 1024))
    ;;
bench)
    install_packages "fusermount3:fuse3 losetup:mount mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs db_bench:rocksdb-tools
        fio:fio sqlite3:sqlite3 git:git cc:build-essential make:make tar:tar
        mariadbd:mariadb-server-core mariadb:mariadb-client-core
        /usr/include/leveldb/c.h:libleveldb-dev unshare:util-linux"
    install_postgresql
    need_shared_memory $((3 * 1024 * 1024))
    ;;
jdk)
    install_jdk
    ;;
maven)
    install_packages "mvn:maven"
    ;;
*)
    fail "usage: setup.sh run|test|bench|jdk|maven"
    ;;
esac
