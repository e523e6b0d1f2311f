# Shared by the scripts of this folder. Sourced, not run.

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '%s\n' "$*" >&2; exit 2; }

# as_root COMMAND...: runs it as root, through sudo where that is needed.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else die "needs root for: $*"; fi
}

# apt_install PACKAGE...: installs those Debian packages that are missing.
apt_install() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} = 0 ] && return 0
  command -v apt-get >/dev/null 2>&1 || die "install these first (no apt-get here): ${missing[*]}"
  say "install ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# have_postgres: true where a server's programs can be found.
have_postgres() {
  [ -n "${HOLDFAST_PG_BIN:-}" ] && return 0
  command -v initdb >/dev/null 2>&1 && return 0
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

need_go() {
  command -v go >/dev/null 2>&1 || die "Go is missing: install Go 1.26 or newer, then run this again"
}

need_postgres() {
  have_postgres || apt_install postgresql
}

need_python() {
  command -v python3 >/dev/null 2>&1 || apt_install python3
}

need_mariadb() {
  command -v mariadbd >/dev/null 2>&1 || [ -x /usr/sbin/mariadbd ] || apt_install mariadb-server-core
}

need_node() {
  command -v npm >/dev/null 2>&1 || apt_install nodejs npm
}
