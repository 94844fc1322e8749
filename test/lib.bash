# test/lib.bash - what test/check, test/demo, test/bench and test/matrix share
#
# Source it.  It works from any checkout, as root (servers then run as user
# postgres) or as an ordinary user, on Debian's servers without installing
# anything into them, and on servers built from source by working on a copy.
# Everything it makes is below $work, and goes when the script ends.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PG_CONFIG=${PG_CONFIG:-pg_config}
COPT_WARN='-Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Werror'
# clang knows neither all of gcc's options in pg_config's flags, nor likes
# all of the server's headers
COPT_CLANG="$COPT_WARN -Wno-missing-field-initializers"
COPT_CLANG+=" -Wno-unknown-warning-option -Wno-ignored-optimization-argument"
COPT_CLANG+=" -Wno-ignored-attributes -Wno-compound-token-split-by-macro"
work=

# make's own variables are for the make that called us; a long TMPDIR makes
# socket paths too long; libpq's settings are for somebody else's server
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES TMPDIR
for var in ${!PG@}; do
	[ "$var" = PG_CONFIG ] || unset "$var"
done
unset LC_ALL LANGUAGE
export LANG=C.UTF-8

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Can a module be built for, and a server started from, $PG_CONFIG?
have_server()
{
	local bindir pgxs
	command -v "$PG_CONFIG" >/dev/null || return 1
	bindir=$("$PG_CONFIG" --bindir) && pgxs=$("$PG_CONFIG" --pgxs) || return 1
	[ -f "$pgxs" ] && [ -x "$bindir/initdb" ] && [ -x "$bindir/postgres" ] &&
		[ -x "$bindir/pgbench" ]
}

# Install the Debian packages that are missing; nothing when none is.
lib_packages()
{
	local packages=() major=15 sudo=
	command -v gcc >/dev/null || packages+=(gcc libc6-dev)
	command -v make >/dev/null || packages+=(make)
	perl -MTest::More -e1 2>/dev/null || packages+=(perl)
	perl -MIPC::Run -e1 2>/dev/null || packages+=(libipc-run-perl)
	command -v runuser >/dev/null || packages+=(util-linux)
	have_server || packages+=(server)
	[ ${#packages[@]} -eq 0 ] && return 0

	command -v apt-get >/dev/null ||
		die "these are missing and cannot be installed without apt-get: ${packages[*]}"
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null ||
			die "these are missing, and installing them needs root or sudo: ${packages[*]}"
		sudo=sudo
	fi
	$sudo apt-get update -qq || say "apt-get update failed, going on with the lists there are"
	if [[ " ${packages[*]} " == *" server "* ]]; then
		apt-cache show postgresql-15 >/dev/null 2>&1 ||
			major=$(apt-cache depends postgresql 2>/dev/null |
				sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -n 1)
		packages=("${packages[@]/#server/postgresql-$major}")
		packages+=("postgresql-server-dev-$major")
	fi
	say "installing ${packages[*]}"
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		--no-install-recommends "${packages[@]}" >/dev/null ||
		die "could not install ${packages[*]}"
	hash -r
	have_server || die "no usable server at $PG_CONFIG"
}

# Run a command as the user that servers run as.
as_user()
{
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

# End what was started below $work and remove it; KEEP=1 keeps the folder.
lib_cleanup()
{
	local pidfile pid
	[ -n "$work" ] && [ -d "$work" ] || return 0
	find "$work" -name postmaster.pid 2>/dev/null | while IFS= read -r pidfile; do
		pid=$(head -n 1 "$pidfile" 2>/dev/null) || continue
		[ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null
	done
	rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }
	work=
}

# Make $work and put a copy of the tree into $work/src: what git knows and
# what it does not ignore, or everything outside of git.
lib_tree()
{
	work=$(mktemp -d /tmp/tidemark.XXXXXX) || die "cannot make a folder in /tmp"
	trap lib_cleanup EXIT
	trap 'exit 130' INT TERM HUP
	chmod 755 "$work"
	mkdir "$work/src"
	if git -C "$top" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		(cd "$top" && git ls-files -z -co --exclude-standard |
			tar -c --null --ignore-failed-read -T - 2>/dev/null)
	else
		(cd "$top" && tar -c --exclude=./.git --exclude=./.matrix .)
	fi | tar -x -C "$work/src" --no-same-owner || die "cannot copy the tree"
	chmod -R u+rwX,go+rX "$work/src"
	[ "$(id -u)" != 0 ] || chown -R postgres: "$work"
	cd "$work" || exit 1		# the checkout may be closed to that user
}

# Build $work/src with the compiler options $1 and install it where only the
# servers below $work find it.  Sets bindir, pgxsdir, major, and writes
# $work/server.conf, which makes a server find it.
lib_install()
{
	local copt=$1 prefix sharedir pkglibdir
	bindir=$("$PG_CONFIG" --bindir)
	sharedir=$("$PG_CONFIG" --sharedir)
	pkglibdir=$("$PG_CONFIG" --pkglibdir)
	major=$("$PG_CONFIG" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
	as_user touch "$work/server.conf"
	if [ "$major" -ge 18 ]; then
		dest=$work/dest
		cat >>"$work/server.conf" <<-CONF
		extension_control_path = '$dest$sharedir:\$system'
		dynamic_library_path = '$dest$pkglibdir:\$libdir'
		CONF
	elif grep -q extension_destdir "$bindir/postgres"; then
		dest=$work/dest
		cat >>"$work/server.conf" <<-CONF
		extension_destdir = '$dest'
		dynamic_library_path = '$dest$pkglibdir:\$libdir'
		CONF
	else
		# no way to look elsewhere: work on a copy of that server
		prefix=$(dirname "$bindir")
		[[ $sharedir == "$prefix"/* && $pkglibdir == "$prefix"/* ]] ||
			die "this server has no extension_destdir and cannot be copied"
		as_user cp -a "$prefix" "$work/server"
		PG_CONFIG=$work/server/bin/pg_config
		bindir=$work/server/bin
		dest=
	fi
	pgxsdir=$(dirname "$("$PG_CONFIG" --pgxs)")/../..
	pgxsdir=$(cd "$pgxsdir" && pwd)
	lib_make -k COPT="$copt" all >"$work/build.log" 2>&1 || {
		cat "$work/build.log"
		return 1
	}
	lib_make COPT="$copt" DESTDIR="$dest" install >>"$work/build.log" 2>&1 || {
		cat "$work/build.log"
		return 1
	}
}

# make in the copy, as the servers' user
lib_make()
{
	as_user make -s -C "$work/src" PG_CONFIG="$PG_CONFIG" with_llvm=no "$@"
}

# Start a server in $work/$1, with the further configuration on standard
# input.  Sets PGHOST, PGPORT, PGUSER, PGDATABASE for libpq.
lib_server()
{
	local data=$work/$1/data
	as_user mkdir -p "$work/$1"
	as_user "$bindir/initdb" -D "$data" -U postgres -A trust --no-sync \
		>"$work/initdb.log" 2>&1 || { cat "$work/initdb.log"; return 1; }
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$work/$1'"
		cat "$work/server.conf" -
	} >>"$data/postgresql.conf"
	export PGHOST=$work/$1 PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
	as_user "$bindir/pg_ctl" -D "$data" -l "$work/$1/log" -w start >/dev/null || {
		tail -n 50 "$work/$1/log"
		return 1
	}
	# this user may connect, and nobody else is to know of it
	server_data=$data
}

lib_server_stop()
{
	as_user "$bindir/pg_ctl" -D "$server_data" -m fast -w stop >/dev/null
}

# SQL in, unaligned rows out; stops at the first error
sql()
{
	"$bindir/psql" -X -q -A -t -v ON_ERROR_STOP=1 "$@"
}
