#!/bin/bash
# unpack.sh DEST NAME    Unpacks kanboard or roundcube in DEST/NAME, with the PHP libraries they need, from Debian's packages: Kanboard
#                        from the release that has it, Roundcube from the system's own. Nothing of them is installed. What is there
#                        already is kept. So are mediawiki, dokuwiki, phpmyadmin and shaarli, of which only the trees are wanted.
set -euo pipefail

fail() { printf 'unpack.sh: %s\n' "$1" >&2; if [[ -n ${2:-} ]]; then printf 'hint: %s\n' "$2" >&2; fi; exit 1; }
[[ $# == 2 ]] || { sed -n '2,/^set /{s/^# \{0,1\}//p}' "$0" >&2; exit 64; }
own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# Named outright, these keep apt from choosing Apache.
instead_of_apache=(nginx-light php php-fpm)
case $2 in
  kanboard) release=sid wanted=(kanboard) ;;
  roundcube) release=$own wanted=(roundcube-core roundcube-sqlite3) ;;
  mediawiki | dokuwiki | phpmyadmin | shaarli) release=$own wanted=("$2") ;;
  *) fail "no application '$2'" "kanboard, roundcube, mediawiki, dokuwiki, phpmyadmin, shaarli" ;;
esac

# Two runs at once shall not replace what the other unpacks.
mkdir -p "$1"
dest=$(cd "$1" && pwd)/$2
exec 9>"$dest.lock"
flock 9
# The list of packages is a part of what is kept.
list="$release $(sha256sum "$0" | cut -c1-12)"
if [[ $(cat "$dest/made" 2>/dev/null) == "$list" ]]; then exit; fi

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
  grep -E '^(kanboard|roundcube|mediawiki|dokuwiki|phpmyadmin|shaarli|libjs-|fonts-font-awesome|php-(auth|christianriesen|doctrine|email|eluceo|gregwar|guzzlehttp|mail|masterminds|matthiasmullie|net-|parsedown|pear|pimple|psr|swift|symfony))' |
  sort >"$work/versions"
cd "$work/packages"
cut -d' ' -f1 "$work/versions" | quiet xargs apt-get download
for package in *.deb; do dpkg-deb -x "$package" "$work/tree"; done
# The packages link to each other from the top of a root.
find "$work/tree" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  target=$work/tree$(readlink "$link")
  if [[ -e $target ]]; then ln -sfnr "$target" "$link"; fi
done
# Documentation, and links to what the system has or nobody has.
rm -rf "$work"/tree/usr/{bin,sbin,share/{doc,man,lintian,locale}}
find "$work/tree" -xtype l -delete
rm -rf "$dest"
mkdir "$dest"
cp -a "$work"/tree/{etc,usr,var} "$work/versions" "$dest"
chmod -R a+rX "$dest"
echo "$list" >"$dest/made"
