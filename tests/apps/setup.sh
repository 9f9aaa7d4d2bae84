#!/bin/bash
# setup.sh DEST [symfony laravel slim wordpress]   Build the test applications in DEST, from Debian's packages and the
#                                                  files beside this script. Nothing is downloaded; run it as often as you like.
#                                                  eav is built if it is named: a report for bench/all, out of MariaDB;
#                                                  mediawiki too, with a later PHP than 8.2; kanboard and roundcube, whose
#                                                  packages unpack.sh downloads.
# setup.sh --packages [8.4] | --packages-db        Print the packages they need, for that PHP; those of a database server.
#
# WordPress wants a running MariaDB: WP_DB_HOST (host, host:port or localhost:/path/of/the/socket), WP_DB_USER,
# WP_DB_PASSWORD, WP_DB_NAME (dropped and made anew), WP_THEME. What PHP writes to belongs to WEBUSER (www-data), if the
# script runs as root. eav wants EAV_DSN (mysql:host=…;port=…;dbname=…), EAV_USER, EAV_PASSWORD; its database is made anew too.
set -euo pipefail

# The version of PHP: that of the `php` which builds the applications, unless the packages of another are asked for.
version=$(php -r 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION;' 2>/dev/null || true)
if [[ ${1:-} == --packages ]]; then version=${2:-$version}; fi
php=php$version
# With 8.2 the applications are the distribution's own. Any later PHP gets the current ones (fetch.sh), of which the system has none.
current=
if [[ $version != 8.2 ]]; then current=${REPRISE_APPS:-/opt/reprise-apps}; fi
share=$current/usr/share
# Themes that Debian has beside that version of PHP.
case $version in 8.2) themes=(twentytwentyone twentytwentythree) ;; *) themes=(twentytwentythree twentytwentyfour) ;; esac

# The package wordpress wants a web server and a PHP for it. Named outright, these keep apt from choosing Apache; the
# applications themselves need none of them.
instead_of_apache=("$php"-fpm php nginx)
common=("$php"-{cli,opcache} composer)
symfony=("$php"-{sqlite3,xml,intl,mbstring}
  php-symfony-framework-bundle php-symfony-runtime php-symfony-twig-bundle php-symfony-security-bundle php-symfony-yaml
  php-symfony-http-kernel php-symfony-dotenv php-symfony-console php-symfony-cache php-symfony-lock php-symfony-form php-symfony-validator
  php-symfony-translation php-symfony-asset php-symfony-serializer php-symfony-monolog-bridge php-doctrine-dbal
  php-doctrine-annotations)
laravel=("$php"-{sqlite3,xml,mbstring,curl} php-laravel-framework)
slim=("$php"-sqlite3 php-slim php-slim-psr7)
wordpress=("$php"-{mysql,gd,xml,mbstring,curl,intl,zip} mariadb-client wordpress "${themes[@]/#/wordpress-theme-}")
# shellcheck disable=SC2034  # by name
mediawiki=("$php"-{sqlite3,apcu,intl,mbstring,xml,curl})
# shellcheck disable=SC2034  # by name
kanboard=("$php"-{sqlite3,gd,mbstring,xml} composer)
# shellcheck disable=SC2034  # by name
roundcube=("$php"-{sqlite3,intl,mbstring,xml} sqlite3)
# shellcheck disable=SC2034  # by name
eav=("$php"-mysql)

fail() { printf 'setup.sh: %s\n' "$1" >&2; if [[ -n ${2:-} ]]; then printf 'hint: %s\n' "$2" >&2; fi; exit 1; }

case ${1:-} in
  --packages) printf '%s\n' "${instead_of_apache[@]}" "${common[@]}" "${symfony[@]}" "${laravel[@]}" "${slim[@]}" "${wordpress[@]}" | awk '!seen[$0]++'; exit ;;
  --packages-db) echo mariadb-server; exit ;;
  '' | -*) sed -n '2,/^set /{s/^# \{0,1\}//p}' "$0" >&2; exit 64 ;;
esac

src=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"; dest=$(cd "$1" && pwd); shift
apps=("$@"); [[ ${#apps[@]} -gt 0 ]] || apps=(symfony laravel slim wordpress)
case $dest/ in "$src"/*) fail "will not build in $dest: it holds the sources" "name a directory elsewhere" ;; esac
export COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_DISABLE_NETWORK=1

# need PACKAGE...: all of them are installed
need() {
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) == installed ]] || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] || fail "$app: missing packages: ${missing[*]}" \
    "apt-get install --no-install-recommends \$($0 --packages)"
}
# What differs with the current one lies in a directory APP-current beside it.
copy() {
  rm -rf "${dest:?}/$app"; cp -r "$src/$app" "$dest/$app"; cd "$dest/$app"
  if [[ -n $current && -d $src/$app-current ]]; then cp -r "$src/$app-current/." .; fi
  grep -rlI @APP@ . | xargs -r sed -i "s#@APP@#$dest/$app#g" || true
  if [[ -n $current && -f $src/$app-current/composer.json ]]; then sed -i "s#\"/usr/share/php#\"$share/php#" composer.json; fi
  if [[ -n $current && $app == symfony ]]; then sed -i 's/Routing\\Annotation/Routing\\Attribute/; s/renderForm(/render(/' src/Controller/*.php; fi
}
# quiet COMMAND...: its output is shown only if it fails
quiet() {
  local output
  output=$("$@" 2>&1) || fail "$app: $* failed" "$output"
}
# An optimised class map over /usr/share/php, as a deployment has.
class_map() {
  # Symfony asks what Composer has installed; only an update makes that file.
  if [[ -n $current ]]; then quiet composer update -o -a --no-interaction; else quiet composer dump-autoload -o -a --no-interaction; fi
}
writable() { mkdir -p "$@"; if [[ $(id -u) == 0 ]]; then chown -R "${WEBUSER:-www-data}" "$@"; fi; }

# blog FILE: where the blog lies: BLOG_URL (mysql://USER:PASSWORD@HOST:PORT) has a database for each application
blog() { if [[ -n ${BLOG_URL:-} ]]; then echo "$BLOG_URL/blog_$app"; else echo "$1"; fi; }

build_symfony() {
  copy; mkdir -p var/sessions var/uploads data; class_map
  sed "s#%runtime_class%#'Symfony\\\\\\\\Component\\\\\\\\Runtime\\\\\\\\SymfonyRuntime'#; s#%runtime_options%#['project_dir' => dirname(__DIR__, 1)]#" \
    "$share/php/Symfony/Component/Runtime/Internal/autoload_runtime.template" > vendor/autoload_runtime.php
  quiet php "$src/seed_blog.php" "$(blog data/blog.sqlite)"
  quiet php bin/console cache:warmup
  writable var data
}

build_laravel() {
  copy; mkdir -p database bootstrap/cache storage/app/uploads storage/logs storage/framework/{cache/data,sessions,views}; class_map
  quiet php "$src/seed_blog.php" "$(blog database/blog.sqlite)" laravel
  for what in config route view; do quiet php artisan "$what:cache"; done
  writable storage bootstrap/cache database
}

build_slim() {
  copy; mkdir -p data/uploads data/sessions; class_map
  quiet php "$src/seed_blog.php" data/blog.sqlite
  writable data
}

build_wordpress() {
  local where output
  export WP_DB_HOST=${WP_DB_HOST:-127.0.0.1:3306} WP_DB_USER=${WP_DB_USER:-wordpress} \
    WP_DB_PASSWORD=${WP_DB_PASSWORD-wordpress} WP_DB_NAME=${WP_DB_NAME:-wordpress}
  [[ $WP_DB_NAME =~ ^[A-Za-z0-9_]+$ ]] || fail "wordpress: WP_DB_NAME '$WP_DB_NAME' may have letters, digits and _ only"
  case $WP_DB_HOST in
    *:/*) where=(--socket "${WP_DB_HOST#*:}") ;;
    *:*) where=(--protocol tcp -h "${WP_DB_HOST%:*}" -P "${WP_DB_HOST##*:}") ;;
    *) where=(-h "$WP_DB_HOST") ;;
  esac
  # Before anything is touched: is the database there, and may we make it anew?
  output=$(MYSQL_PWD=$WP_DB_PASSWORD mariadb --no-defaults "${where[@]}" -u "$WP_DB_USER" \
    -e "DROP DATABASE IF EXISTS $WP_DB_NAME; CREATE DATABASE $WP_DB_NAME" 2>&1) ||
    fail "wordpress: no database at $WP_DB_HOST for user $WP_DB_USER: $output" \
      "start a MariaDB ($0 --packages-db) and set WP_DB_HOST, WP_DB_USER, WP_DB_PASSWORD"
  copy
  # -L: the package links into other packages, and a document root must not lead outside itself.
  cp -rL "$share/wordpress" htdocs; rm -f htdocs/.htaccess; mv wp-config.php htdocs/wp-config.php
  # shellcheck disable=SC2016  # PHP's variables
  php -r '$db = []; foreach (["HOST", "USER", "PASSWORD", "NAME"] as $key) $db[$key] = getenv("WP_DB_$key");
    echo "<?php\nreturn ", var_export($db, true), ";\n";' > wp-db.php
  quiet php install.php
  quiet php seed.php ${WP_THEME:+"$WP_THEME"}
  writable htdocs/wp-content/{uploads,upgrade,upgrade-temp-backup,plugins}
}

build_mediawiki() {
  local name
  copy; mkdir htdocs data cache
  # -L: as for WordPress.
  tar -C "$share/mediawiki" -chf - --exclude ./LocalSettings.php --exclude ./config --exclude ./extensions --exclude ./extensions-core . | tar -xf - -C htdocs
  mkdir htdocs/extensions
  for name in ParserFunctions Cite WikiEditor; do cp -rL "$share/mediawiki/extensions-core/$name" htdocs/extensions; done
  # The site speaks English. All languages are 90 MB.
  find htdocs -path '*/i18n/*.json' ! -name 'en*.json' ! -name qqq.json -delete
  quiet php htdocs/maintenance/run.php install --dbtype sqlite --dbname wiki --dbpath "$PWD/data" --server http://blog.test --scriptpath '' \
    --pass admin-test-pw --with-extensions 'Test Wiki' Admin
  echo "require '$PWD/settings.php';" >> htdocs/LocalSettings.php
  quiet php htdocs/maintenance/run.php rebuildLocalisationCache --lang en
  quiet ./seed.sh
  writable data cache htdocs/images
}

# Unpacks its packages and copies libraries and application, without links that lead out of the directory.
packaged() {
  unpacked=${REPRISE_UNPACKED:-/var/cache/reprise/unpacked}
  quiet "$src/unpack.sh" "$unpacked" "$app"
  unpacked=$unpacked/$app
  copy; cp -rL "$unpacked/usr/share/$app" htdocs; cp -rL "$unpacked/usr/share/php" php
  grep -rl /usr/share/php/ php | xargs -r sed -i "s#/usr/share/php/#$PWD/php/#g"
}
# Adds lines below one that has to be there.
add_below() {
  grep -qF -- "$2" "$1" || fail "$app: $1 has no line '$2'"
  awk -v line="$2" -v more="$3" '{ print } index($0, line) { print more }' "$1" >changed && cat changed >"$1" && rm changed
}

build_kanboard() {
  packaged; mkdir cache
  # The one class that it takes from Composer.
  sed -i "/\/Composer\/autoload/d; s#^// Suggest#require_once '/usr/share/php/Composer/Autoload/ClassLoader.php';#; s#/usr/share/php/\([^C]\|Ch\)#$PWD/php/\1#" htdocs/vendor/autoload.php
  sed -i "s#/var/lib/kanboard/#$PWD/#; s#/var/cache/kanboard#$PWD/cache#" htdocs/config.php
  # Its connection to the database is closed in the boot, and opened in each request.
  add_below htdocs/index.php app/common.php "    if (function_exists('reprise_snapshot')) {
        unset(\$container['db']);
        gc_collect_cycles();
        reprise_snapshot();
        \$container->register(new Kanboard\\\\ServiceProvider\\\\DatabaseProvider());
    }"
  mkdir -p data files plugins; quiet php seed.php
  writable data files plugins cache
}

build_roundcube() {
  packaged; mkdir -p htdocs/config data logs temp; mv config.inc.php htdocs/config
  cp "$unpacked"/etc/roundcube/{defaults.inc.php,mimetypes.php} htdocs/config
  sed -i "s#'/var/lib/roundcube/'#'$PWD/htdocs/'#" htdocs/program/include/iniset.php
  add_below htdocs/index.php program/include/iniset.php "if (function_exists('reprise_snapshot')) { reprise_snapshot(); }"
  quiet sqlite3 data/db.sqlite <htdocs/SQL/sqlite.initial.sql
  writable data logs temp
}

build_eav() {
  [[ -n ${EAV_DSN:-} ]] || fail "eav: EAV_DSN names no database" "mysql:host=127.0.0.1;port=3306;dbname=eav, EAV_USER, EAV_PASSWORD"
  copy; quiet php seed.php
}

for app in "${apps[@]}"; do
  case $app in symfony | laravel | slim | wordpress | mediawiki | kanboard | roundcube | eav) ;; *) fail "no application '$app'" "symfony, laravel, slim, wordpress, mediawiki, kanboard, roundcube, eav" ;; esac
  declare -n wanted=$app
  need "${common[@]}" "${wanted[@]}"
done
for app in "${apps[@]}"; do "build_$app"; echo "$app: ready in $dest/$app"; done
