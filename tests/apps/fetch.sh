#!/bin/bash
# fetch.sh DEST    Unpacks the current applications and libraries in DEST: Symfony, Laravel, WordPress and MediaWiki from the
#                  packages of a later release of Debian, which are the same for all architectures. Nothing of them is installed.
#                  DEST is kept: with all of them there, only their versions are printed. Needs no rights but to write DEST.
set -euo pipefail

release=forky
# What the test applications ask for. The rest follows from the packages' own dependencies.
wanted=(php-symfony-{framework-bundle,runtime,twig-bundle,security-bundle,yaml,http-kernel,dotenv,console,cache,lock,form,validator,translation,asset,serializer,monolog-bridge}
  php-doctrine-dbal php-laravel-framework wordpress wordpress-theme-twentytwenty{four,five} mediawiki)
# Named outright, these keep apt from choosing Apache.
instead_of_apache=(nginx-light php php-fpm)
# Package, first version that will do, first that will not. The applications in this directory are written for these.
ranges=('php-symfony-runtime 7.4 8' 'php-symfony-framework-bundle 7.4 8' 'php-laravel-framework 13 14' 'wordpress 7.1 8' 'mediawiki 1:1.43 1:1.44')

fail() { printf 'fetch.sh: %s\n' "$1" >&2; if [[ -n ${2:-} ]]; then printf 'hint: %s\n' "$2" >&2; fi; exit 1; }
[[ $# == 1 && $1 != -* ]] || { sed -n '2,/^set /{s/^# \{0,1\}//p}' "$0" >&2; exit 64; }

# Compares the versions in DIRECTORY/versions with the ranges, and prints them.
check() {
  local package from to version
  for range in "${ranges[@]}"; do
    read -r package from to <<<"$range"
    version=$(sed -n "s/^$package //p" "$1/versions")
    [[ -n $version ]] || fail "Debian $release has no package $package" "name a release in $0 that has it"
    if dpkg --compare-versions "$version" lt "$from~" || dpkg --compare-versions "$version" ge "$to~"; then
      fail "$package of Debian $release is $version; the test applications are for $from to below $to" \
        "change the applications beside $0 so that they fit, and then its ranges"
    fi
    printf '%s %s\n' "$package" "$version"
  done
}

# Two runs at once shall not replace what the other unpacks.
mkdir -p "$1"
exec 9>"$1/lock"
flock 9
# The list of packages is a part of what is kept.
list=$(sha256sum "$0" | cut -c1-12)
if [[ $(cat "$1/made" 2>/dev/null) == "$list" ]]; then check "$1"; exit; fi

own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# shellcheck disable=SC2016  # apt's own names
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $own" | head -n 1)
[[ -n $mirror ]] || fail "apt knows no mirror of Debian $own" "apt-get update"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial,etc/{apt.conf.d,preferences.d,sources.d},packages,tree}
: >"$work/status"
echo "deb $mirror $release main" >"$work/sources"
cat >"$work/apt.conf" <<EOF
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Etc::sourcelist "$work/sources";
Dir::Etc::sourceparts "$work/etc/sources.d";
Dir::Etc::preferencesparts "$work/etc/preferences.d";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Install-Recommends "false";
APT::Sandbox::User "";
EOF
export APT_CONFIG=$work/apt.conf
quiet() { "$@" >"$work/log" 2>&1 || fail "$* failed: $(tail -n 5 "$work/log")" "is the mirror $mirror reachable?"; }
quiet apt-get update
quiet apt-get --simulate install "${wanted[@]}" "${instead_of_apache[@]}"
# PHP itself, its extensions and servers are those of the system.
awk '$1 == "Inst" && /\[all\]/ { print $2, $3 }' "$work/log" | tr -d '(' |
  grep -E '^(php-[a-z]+-|php-(monolog|twig|getallheaders|getid3|phpoption)|libphp-|libjs-|wordpress|mediawiki)' | sort >"$work/versions"
check "$work"
cd "$work/packages"
cut -d' ' -f1 "$work/versions" | quiet xargs apt-get download
for package in *.deb; do dpkg-deb -x "$package" "$work/tree"; done
# The packages link to each other from the top of a root. Other links are to what the system has: certificates.
find "$work/tree" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  target=$work/tree$(readlink "$link")
  if [[ -e $target ]]; then ln -sfnr "$target" "$link"; fi
done
# Where Laravel looks for the settings that an application's own are merged with: beside upstream's directory src.
ln -s php/Illuminate/config "$work/tree/usr/share/config"
rm -rf "$work"/tree/usr/{bin,sbin,share/{doc,man,lintian,locale}}
dest=$(cd "$1" && pwd)
rm -rf "${dest:?}"/{made,versions,etc,usr,var}
cp -a "$work"/tree/{etc,usr,var} "$work/versions" "$dest"
chmod -R a+rX "$dest"
echo "$list" >"$dest/made"
echo "unpacked $(wc -l <"$dest/versions") packages in $SECONDS s: $(du -sh "$dest" | cut -f1)" >&2
