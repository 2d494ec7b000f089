# Shared by scripts/test, scripts/demo and the others: installs missing packages
# and builds. For bash with `set -eu`.
#
# All its output is under build/, except java/target and the packages of apt-get.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
preset=$build/dev
venv=$build/venv
python=$venv/bin/python

export LC_ALL=C.UTF-8
export PIP_DISABLE_PIP_VERSION_CHECK=1
# Python caches its bytecode in build/pycache; without that, each test that starts a Python program
# would compile all its imports.
unset PYTHONDONTWRITEBYTECODE
export MYPY_CACHE_DIR=$build/mypy RUFF_CACHE_DIR=$build/ruff PYTHONPYCACHEPREFIX=$build/pycache

say() { printf '\n== %s\n' "$*"; }
die() { echo "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null; }
is_root() { [ "$(id -u)" = 0 ]; }

# Runs a function under `set -e` (an `if` or a `||` around the call would switch it
# off), and leaves its exit status in $status.
attempt() {
    set +e
    (set -e; "$@")
    status=$?
    set -e
}

# Shows a command's output only if it fails.
quietly() {
    local log
    mkdir -p "$build"
    log=$(mktemp -p "$build")
    attempt "$@" >"$log" 2>&1
    [ $status = 0 ] || cat "$log"
    rm "$log"
    return $status
}

# ------------------------------------------------------------------ Packages

at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

has_java() { has javac && at_least 17 "$(javac -version 2>&1 | sed -n 's/^javac //p')"; }
java_version() { "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | grep . || echo 0; }
has_python() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; }
has_venv() { python3 -c 'import ensurepip, venv'; }
has_python_headers() {
    [ -f "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]
}
has_library() { echo "#include <$1>" | c++ -E -o /dev/null -; }

# Prints the Debian packages that this machine needs. It looks for programs, not for
# packages: a JDK may come from anywhere.
missing_packages() {
    { has g++ && has make; } || echo build-essential
    has cmake && at_least 3.25 "$(cmake --version | sed -n '1s/[^0-9.]//gp')" || echo cmake
    has ninja || echo ninja-build
    has pkg-config || echo pkg-config
    has_library openssl/ssl.h || echo libssl-dev
    has_library cmocka.h || echo libcmocka-dev
    has_library jansson.h || echo libjansson-dev
    has_library ncurses.h || echo libncurses-dev
    has_library lua5.1/lua.h || echo liblua5.1-0-dev
    has redis-server || echo redis-server
    [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
    has_python || echo python3
    has_venv || echo python3-venv
    has_python_headers || echo python3-dev
    has_java || echo default-jdk-headless
    has mvn || echo maven
    has ps || echo procps
    has openssl || echo openssl
    has_hiredis || hiredis_packages
} 2>/dev/null

# scripts/fuzz also needs clang with libFuzzer.
fuzz_packages() {
    local version
    has clang || echo clang
    version=$(apt-cache depends clang | sed -n 's/ *Depends: clang-\([0-9]*\)$/\1/p')
    [ -n "$(find /usr/lib -name 'libclang_rt.fuzzer-*.a')" ] || echo libclang-rt-${version:-14}-dev
} 2>/dev/null

abi_packages() { has abidiff || echo abigail-tools; }
go_packages() { has go || echo golang-go; } # builds actionlint and kubeconform, from their modules
image_packages() { has skopeo || echo skopeo; }
qemu_packages() { has qemu-aarch64-static || echo qemu-user-static; }
# scripts/musl compiles CPython, with a Python of the same version, and OpenJDK.
musl_packages() {
    has python3.11 || echo python3.11
    has autoconf || echo autoconf
    has file || echo file
    has unzip || echo unzip
    has zip || echo zip
}
root_packages() { has debootstrap || echo debootstrap; }
# The tests of the command line load its completions and its manual, and look at `holdfast top`.
cli_packages() {
    has zsh || echo zsh
    has fish || echo fish
    has mandoc || echo mandoc
    has tmux || echo tmux
}
# systemd-analyze and crontab read the files of examples/deploy.
deploy_packages() {
    has systemd-analyze || echo systemd
    has crontab || echo cron
}
# Fences are checked in real databases (tests/with-databases).
database_packages() {
    [ -n "$(find /usr/lib/postgresql -name initdb 2>/dev/null)" ] && has psql || echo postgresql
    [ -x /usr/sbin/mariadbd ] || echo mariadb-server
}
recipe_packages() {
    has git || echo git
    has ruby || echo ruby
}
site_packages() { has mandoc || echo mandoc; } # the manual, as a page
phone_packages() { has chromium || echo chromium; }
model_packages() { has spin || echo spin; }
rule_packages() { has promtool || echo prometheus; } # promtool, which checks alert rules

# install_missing [FUNCTION…]: installs the common packages, and those that the functions print.
install_missing() {
    local packages
    packages=$({ missing_packages; for more in "$@"; do $more; done; } | sort -u | xargs)
    if [ -n "$packages" ]; then
        has apt-get || die "Please install the packages that Debian calls $packages."
        is_root || die "Packages are missing. Run this as root once, or apt-get install $packages"
        say "Installing $packages"
        apt_install $packages
    fi
    has_hiredis || install_hiredis
    has_hiredis || die "Holdfast needs hiredis 1.1 or newer, with its static libraries."
}

# Prints the java of the newest installed JDK, which may not be the one in the PATH.
newest_java() {
    local java newest=java
    for java in /usr/lib/jvm/*/bin/java "${JAVA_HOME:-}/bin/java" \
        $(env | sed -n 's|^JAVA_HOME_[0-9]*_[^=]*=\(.*\)|\1/bin/java|p'); do
        [ ! -x "${java}c" ] || [ "$(java_version "$newest")" -ge "$(java_version "$java")" ] ||
            newest=$java
    done
    echo "$newest"
}

# Prints a package with virtual threads (Java 21). Debian 12 has none, so the tests skip them.
virtual_thread_packages() {
    local package
    [ "$(java_version "$(newest_java)")" -lt 21 ] && is_root || return 0
    for package in openjdk-25-jdk-headless openjdk-21-jdk-headless; do
        if apt-cache policy $package | grep -q 'Candidate: [0-9]'; then
            echo $package
            return
        fi
    done
} 2>/dev/null

# For scripts/test, besides the common packages.
valgrind_packages() { has valgrind || echo valgrind; }
test_packages() {
    cli_packages
    database_packages
    deploy_packages
    fuzz_packages
    model_packages
    recipe_packages
    rule_packages
    valgrind_packages
    virtual_thread_packages
}

# Installs packages, but keeps them from starting services, now or at boot: the tests start their
# own redis-server, and need only a tool of prometheus and of cron.
apt_install() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        trap 'rm -f $policy' EXIT
        trap 'exit 143' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    quietly apt-get install -qq -y --no-install-recommends "$@"
    for service in redis-server prometheus cron postgresql mariadb; do
        case " $* " in
            *" $service "*) update-rc.d $service disable >/dev/null 2>&1 || : ;;
        esac
    done
)

# Prints the address of the Debian mirror that this system uses.
debian_mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' \
        'Component: main' | grep -m 1 . || die "no Debian mirror is configured"
}

# debian_download KIND SUITE FOLDER PACKAGE...: downloads packages of another suite of
# Debian (KIND is deb, deb:arm64 for another machine, or deb-src for sources), with separate
# apt-get settings, so that the system's sources stay as they are.
debian_download() (
    kind=${1%:*} machine=$(dpkg --print-architecture) suite=$2 folder=$3
    [ "$kind" = "$1" ] || machine=${1#*:}
    shift 3
    mirror=$(debian_mirror)
    rm -rf "$folder"
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    cd "$folder"
    echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
        >sources.list
    apt_get() {
        apt-get -qq -o APT::Architecture="$machine" -o APT::Architectures="$machine" -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=- \
            -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" \
            -o APT::Sandbox::User=root "$@"
    }
    apt_get update
    case $kind in
        deb) quietly apt_get download "$@" ;;
        *) quietly apt_get source --download-only "$@" ;;
    esac
)

# ------------------------------------------------------------------- hiredis
# Debian 12 has hiredis 0.14, which is too old (docs/dependencies.md). There we build
# the source package of the next release.

has_hiredis() {
    pkg-config --atleast-version=1.1 hiredis &&
        [ -f "$(cc -print-file-name=libhiredis.a)" ]
}

# Prints the package, if it is new enough, or the tools to build it.
hiredis_packages() {
    local candidate
    candidate=$(apt-cache policy libhiredis-dev | sed -n 's/ *Candidate: //p')
    if at_least 1.1 "${candidate#*:}"; then
        echo libhiredis-dev
    else
        echo debhelper dpkg-dev
    fi
}

install_hiredis() (
    is_root || die "hiredis 1.1 or newer is missing. Run this as root once, to build and install it."
    say "Building hiredis from the source package of Debian 13"
    debian_download deb-src trixie "$build/hiredis" hiredis
    cd "$build/hiredis"
    quietly dpkg-source -x hiredis_*.dsc
    cd hiredis-*/
    export DEB_BUILD_OPTIONS="nocheck noddebs parallel=$(nproc)"
    quietly dpkg-buildpackage -us -uc -b -d
    quietly dpkg -i ../libhiredis1*.deb ../libhiredis-dev_*.deb
)

# --------------------------------------------------------------------- Build

# C: the core, its tests, the examples and the benchmarks.
build_c() {
    (cd "$root" && cmake --preset dev && cmake --build --preset dev)
}

# Python: a wheel, installed into a separate environment with the tools of the
# tests. The source tree is never imported.
build_python() {
    [ -x "$python" ] && "$python" -c '' || python3 -m venv --clear "$venv"
    "$python" -m pip install -q -r "$root/requirements-dev.txt"
    rm -rf "$build/wheel"
    "$python" -m pip wheel -q --no-deps -w "$build/wheel" "$root"
    "$python" -m pip install -q --no-deps --force-reinstall "$build"/wheel/holdfast_lock-*.whl
}

# Java: the jar, with the native library inside.
build_java() { with_tools mvn -B -ntp -f "$root/java" package -DskipTests; }

# Runs a command with the environment's SWIG, which is newer than the system's.
with_tools() { PATH=$venv/bin:$PATH "$@"; }
