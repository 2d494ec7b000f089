# The machines that a release serves, and how to build for each: for scripts/natives and
# scripts/release, after lib.sh. For macOS it only compiles.
natives=$build/natives
targets=(linux-x86_64 linux-aarch64 linux-x86_64-musl linux-aarch64-musl)
debian_targets=(linux-x86_64 linux-aarch64)
compiled_only=(macos-x86_64 macos-aarch64)
arm64_packages=(libc6 libgcc-s1 libssl3 libstdc++6 zlib1g
    python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 libffi8
    libbz2-1.0 liblzma5 libuuid1
    openjdk-17-jre-headless)
# Its wheels for musl contain OpenSSL. No registry has another OpenSSL for musl.
psycopg2_version=2.9.13
zig_version=0.17.1 scikit_version=1.1.2 wheel_version=0.48.0 actionlint_version=v1.7.7
kubeconform_version=v0.8.0

is_macos() { [[ $1 == macos-* ]]; }
is_musl() { [[ $1 == *-musl ]]; }
debian_name() { [[ $1 == *aarch64* ]] && echo arm64 || echo amd64; }
machine_of() { [[ $1 == *aarch64* ]] && echo aarch64 || echo x86_64; }

# Prints Zig's name of a target. manylinux_2_28 is the oldest that many of pip's users still have.
zig_name() {
    case $1 in
        macos-*) echo "${1#macos-}-macos" ;;
        *-musl) echo "$(machine_of "$1")-linux-musl -dynamic" ;; # or it could not look for OpenSSL
        *) echo "$(machine_of "$1")-linux-gnu.2.28" ;;
    esac
}

# Prints where a target's program finds OpenSSL.
openssl_folder() {
    case $1 in
        linux-x86_64) dirname "$(cc -print-file-name=libcrypto.so)" ;;
        linux-aarch64) echo "$natives/machines/aarch64/usr/lib/aarch64-linux-gnu" ;;
        *-musl) echo "$natives/machines/$(machine_of "$1")/lib/musl" ;;
    esac
}

# Prints what runs a target's program here, as CMake's list of words. Qemu finds the loader and the
# libraries in the folder.
emulator() {
    case $1 in
        linux-aarch64*) echo "qemu-aarch64-static;-L;$natives/machines/aarch64" ;;
        *-musl) echo "$natives/machines/x86_64/lib/ld-musl-x86_64.so.1" ;;
    esac
}

# Makes the folders of the other machines: their libc, a Python, a JRE and OpenSSL.
prepare_machines() {
    local package
    [ ! -d "$natives/machines" ] || return 0
    rm -rf "$natives/machines.new"
    mkdir -p "$natives/machines.new/aarch64" "$natives/machines.new/x86_64"
    debian_download deb:arm64 bookworm "$natives/downloads/arm64" "${arm64_packages[@]}"
    for package in "$natives"/downloads/arm64/*.deb; do
        dpkg -x "$package" "$natives/machines.new/aarch64"
    done
    prepare_musl aarch64 deb:arm64
    prepare_musl x86_64 deb
    mv "$natives/machines.new" "$natives/machines"
}

# prepare_musl MACHINE KIND: the loader, where Alpine Linux has it, and the OpenSSL of a wheel,
# whose relocations need the musl of Debian 13.
prepare_musl() {
    local from=$natives/downloads/musl-$1 to=$natives/machines.new/$1 name file
    debian_download "$2" trixie "$from" musl
    dpkg -x "$from"/musl_*.deb "$from"
    quietly "$python" -m pip download --no-deps --only-binary :all: --python-version 3.11 \
        --platform "musllinux_1_2_$1" -d "$from" "psycopg2-binary==$psycopg2_version"
    "$python" -m zipfile -e "$from"/*.whl "$from"
    mkdir -p "$to/etc" "$to/lib/musl"
    cp "$from/usr/lib/$1-linux-musl/libc.so" "$to/lib/ld-musl-$1.so.1"
    openssl_folder "linux-$1-musl" >"$to/etc/ld-musl-$1.path"
    # The libraries refer to each other by their names in the wheel.
    for name in ssl crypto; do
        file=$(echo "$from"/psycopg2_binary.libs/lib$name-*.so.3)
        cp "$file" "$to/lib/musl/"
        ln -s "$(basename "$file")" "$to/lib/musl/lib$name.so.3"
    done
}

python_path() { python3 -c "import sysconfig; print(sysconfig.$1)"; }

# The common parts of all targets: Zig, the sources, and headers that do not depend on the machine.
prepare_targets() {
    local java tool archive
    "$python" -m pip install -q "ziglang==$zig_version"
    prepare_machines
    # Not by Python's own start, which finds no ziglang in the environment in which pip builds.
    zig=$("$python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig
    mkdir -p "$natives/bin"
    for tool in ar ranlib; do
        printf '#!/bin/sh\nexec %q %s "$@"\n' "$zig" $tool >"$natives/bin/$tool"
    done
    chmod +x "$natives"/bin/*
    if [ ! -d "$natives/sources" ]; then
        say "Sources"
        debian_download deb-src trixie "$natives/downloads/trixie" hiredis
        debian_download deb-src bookworm "$natives/downloads/bookworm" jansson cmocka ncurses
        mkdir "$natives/sources.new"
        for archive in "$natives"/downloads/*/*.orig.tar.?z; do
            tar xf "$archive" -C "$natives/sources.new"
        done
        mv "$natives/sources.new" "$natives/sources"
    fi
    mkdir -p "$natives/include/python" "$natives/include/java"
    cp -rL /usr/include/openssl "$natives/include/"
    cp -rL "/usr/include/$(cc -dumpmachine)/openssl" "$natives/include/" 2>/dev/null || :
    # Debian's pyconfig.h includes one of several by machine; the stable ABI is the same in all.
    cp -rL "$(python_path 'get_path("include")')/." "$natives/include/python"
    cp -L "$(python_path 'get_config_h_filename()')" "$natives/include/python/"
    java=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
    cp -L "$java/include/jni.h" "$java/include/linux/jni_md.h" "$natives/include/java/"
}

# Makes the compiler and the libraries of a target.
prepare_target() {
    local cc=$natives/bin/$1-cc prefix=$natives/deps/$1 openssl flags
    openssl=$(openssl_folder "$1")
    # No path of this machine may appear, and no symbol of the libraries that are linked in.
    flags="-g0 -fvisibility=hidden -ffile-prefix-map=$root=."
    ! is_musl "$1" || flags+=" -D_UINTPTR_T_DEFINED" # or cmocka's header makes one of its own
    printf '#!/bin/sh\nexec %q cc -target %s "$@"\n' "$zig" "$(zig_name "$1")" >"$cc"
    chmod +x "$cc"
    cat >"$natives/$1.cmake" <<END
set(CMAKE_SYSTEM_NAME $(is_macos "$1" && echo Darwin || echo Linux))
set(CMAKE_SYSTEM_PROCESSOR $(machine_of "$1"))
set(CMAKE_C_COMPILER $cc)
set(CMAKE_AR $natives/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB $natives/bin/ranlib CACHE FILEPATH "")
set(CMAKE_C_FLAGS_INIT "$flags")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s -Wl,--allow-shlib-undefined") # OpenSSL may want a newer glibc
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-s")
set(CMAKE_FIND_ROOT_PATH $prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_C_COMPILER_WORKS TRUE)
set(CMAKE_CROSSCOMPILING_EMULATOR "$(emulator "$1")")
set(OPENSSL_INCLUDE_DIR $prefix/include)
set(OPENSSL_SSL_LIBRARY $openssl/libssl.so.3) # for the tests, which make certificates
set(OPENSSL_CRYPTO_LIBRARY $openssl/libcrypto.so.3)
set(Python_INCLUDE_DIR $natives/include/python)
set(JAVA_INCLUDE_PATH $natives/include/java)
set(JAVA_INCLUDE_PATH2 $natives/include/java)
set(JAVA_JVM_LIBRARY $natives/include/java/jni.h) # nothing links to it
END
    [ ! -e "$prefix/done" ] || return 0
    rm -rf "$prefix"
    dependency "$1" hiredis -DDISABLE_TESTS=ON
    dependency "$1" jansson -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
    if ! is_macos "$1"; then
        dependency "$1" cmocka -DWITH_EXAMPLES=OFF -DWITH_STATIC_LIB=ON
        curses "$1"
    fi
    cp -r "$natives/include/openssl" "$prefix/include/"
    touch "$prefix/done"
}

# dependency TARGET NAME OPTION…: builds and installs a static library for the target.
dependency() {
    local folder=$natives/deps/build-$1-$2
    rm -rf "$folder"
    quietly cmake -S "$(echo "$natives"/sources/"$2"-*)" -B "$folder" -G Ninja \
        -DCMAKE_TOOLCHAIN_FILE="$natives/$1.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_INSTALL_PREFIX="$natives/deps/$1" \
        -DCMAKE_INSTALL_LIBDIR=lib "${@:3}"
    quietly cmake --build "$folder"
    quietly cmake --install "$folder"
}

# curses TARGET: the static ncurses for `holdfast top`, which finds terminals where each system
# has their descriptions.
curses() (
    mkdir -p "$natives/deps/build-$1-ncurses"
    cd "$natives/deps/build-$1-ncurses"
    export CC="$natives/bin/$1-cc" AR="$natives/bin/ar" RANLIB="$natives/bin/ranlib" BUILD_CC=cc
    export CFLAGS="-O2 -g0 -fPIC -fvisibility=hidden -ffile-prefix-map=$root=."
    quietly "$(echo "$natives"/sources/ncurses-*)/configure" --prefix="$natives/deps/$1" \
        --host="$(machine_of "$1")-linux" --build="$(cc -dumpmachine)" \
        --enable-widec --enable-overwrite --disable-db-install --without-ada --without-cxx \
        --without-cxx-binding --without-debug --without-manpages --without-progs --without-shared \
        --without-tests --disable-stripping --with-default-terminfo-dir=/usr/share/terminfo \
        --with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo
    quietly make -j "$(nproc)" libs
    quietly make install.libs install.includes
)

# Prints the options with which CMake builds for a target.
target_options() {
    echo "-DCMAKE_TOOLCHAIN_FILE=$natives/$1.cmake -DCMAKE_BUILD_TYPE=Release"
    ! is_macos "$1" || echo -DHOLDFAST_PORTABLE=ON
    # For Debian's packages.
    is_musl "$1" || is_macos "$1" ||
        echo "-DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib/$(machine_of "$1")-linux-gnu" \
            "-DCPACK_DEBIAN_PACKAGE_ARCHITECTURE=$(debian_name "$1")"
}

# Runs the C tests of one server, those of TLS, and the quick start in C, against this machine's
# Redis.
test_target() {
    local runner skipped=none
    # The first measures the memory of the process, which is mostly qemu's; the others measure
    # times, for which qemu is too slow on a busy machine.
    [[ $1 != linux-aarch64* ]] || skipped='redis/(hostile|bad_input|keys)'
    IFS=';' read -ra runner <<<"$(emulator "$1")"
    ctest --test-dir "$natives/$1" -R '^(unit|redis)/|^deployments/tls$' -E "$skipped" \
        --no-tests=error --output-on-failure --timeout 300
    "$root/tests/with-redis" sh -c '"$@" "$HOLDFAST_TEST_URL"' - \
        "${runner[@]}" "$natives/$1/examples/quickstart_c"
}
