//! What the makers of applications document for nginx, and what their trees have in them. `{php}` runs a script, `{info}` one
//! with path info.

/// An application.
pub struct Site {
    /// The preset's name.
    pub name: &'static str,
    /// Files of its tree.
    pub files: &'static [&'static str],
    /// The directory of a Debian package with the whole tree.
    pub package: Option<&'static str>,
    /// The locations of the documented configuration.
    pub nginx: &'static str,
    /// Further URLs.
    pub more: &'static [&'static str],
    /// Files that its rules deny.
    pub denied: &'static [&'static str],
}

/// All applications that have a preset.
// Lists of names: one a line would be three times as long.
#[rustfmt::skip]
pub const SITES: &[Site] = &[
    Site {
        name: "wordpress",
        package: Some("/usr/share/wordpress"),
        files: &[
            "wp-content/uploads/2024/a.png", "wp-content/uploads/evil.php", "wp-content/uploads/2024/05/b.php",
            "files/c.php", "wp-content/blogs.dir/1/files/d.php", ".htaccess", "wp-content/.env", "robots.txt",
        ],
        nginx: r"
            location = /favicon.ico { log_not_found off; }
            location = /robots.txt { allow all; }
            location ~ /\.(?!well-known(/|$)) { deny all; }
            location ~* /(?:uploads|files)/.*\.php(/|$) { deny all; }
            location ~ \.php(/|$) { {php} }
            location / { try_files $uri $uri/ /index.php?$args; }",
        more: &["/2024/05/hello/", "/feed/", "/?p=1", "/wp-admin", "/wp-admin/", "/wp-json/wp/v2/posts?x=1"],
        denied: &["wp-content/uploads/evil.php", "wp-content/uploads/2024/05/b.php", "files/c.php", ".htaccess"],
    },
    Site {
        name: "mediawiki",
        package: None,
        files: &[
            "index.php", "load.php", "api.php", "rest.php", "thumb.php", "thumb_handler.php", "img_auth.php", "opensearch_desc.php",
            "LocalSettings.php", "autoload.php", "includes/Defines.php", "includes/DefaultSettings.php", "includes/x.txt",
            "maintenance/run.php", "maintenance/tables.txt", "languages/data/a.txt", "cache/l10n.txt", "tests/a.txt", "sql/a.txt",
            "images/a/ab/Cat.png", "images/evil.php", "images/deleted/a/b/secret.png", "skins/Vector/skin.json", "skins/Vector/a.css",
            "skins/Vector/includes/S.php", "extensions/Cite/a.js", "extensions/Cite/README.txt", "resources/assets/logo.svg",
            "resources/lib/jquery.js", "mw-config/index.php", "mw-config/config.css", "docs/a.txt", "COPYING", "vendor/a/b.txt",
        ],
        nginx: r"
            location ^~ /images/deleted { deny all; }
            location ~ ^/images/.*\.php(/|$) { deny all; }
            location ~ ^/(cache|includes|languages|maintenance|serialized|sql|tests|vendor|bin)(/|$) { return 404; }
            location ~ ^/(skins|extensions)/(?!.+\.(css|js|gif|jpe?g|png|svg|wasm|ttf|woff2?)$) { return 404; }
            location ~ ^/(index|load|api|rest|thumb|thumb_handler|img_auth|opensearch_desc|mw-config/index)\.php(/|$) { {php} }
            location ~ \.php(/|$) { return 404; }
            location / { try_files $uri $uri/ /index.php?$args; }",
        more: &["/wiki/Main_Page", "/wiki/A/B?action=edit", "/rest.php/v1/page/A", "/index.php/Main_Page", "/images/none.png"],
        denied: &["images/deleted/a/b/secret.png", "images/evil.php", "LocalSettings.php", "maintenance/run.php", "skins/Vector/skin.json"],
    },
    Site {
        name: "dokuwiki",
        package: None,
        files: &[
            "doku.php", "index.php", "feed.php", "install.php", "lib/exe/fetch.php", "lib/exe/detail.php", "lib/exe/ajax.php",
            "lib/exe/css.php", "lib/tpl/a/style.css", "lib/images/a.png", "lib/scripts/a.js", "inc/init.php", "inc/lang/en/a.txt",
            "conf/users.auth.php", "conf/acl.auth.php", "conf/mime.conf", "data/pages/wiki/a.txt", "data/cache/a.txt", "bin/wantedpages.php",
            "vendor/a/b.php", "vendor/README", "README", "COPYING", ".htaccess.dist",
        ],
        nginx: r"
            location ~ ^/(data|conf|bin|inc|vendor)(/|$) { deny all; }
            location ~ /\.ht { deny all; }
            location ~ \.php(/|$) { {php} }
            location / { try_files $uri $uri/ @dokuwiki; }
            location @dokuwiki {
                rewrite ^/_media/(.*) /lib/exe/fetch.php?media=$1 last;
                rewrite ^/_detail/(.*) /lib/exe/detail.php?media=$1 last;
                rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last;
                rewrite ^/(.*) /doku.php?id=$1 last;
            }",
        more: &["/wiki/start", "/_media/wiki/a.png?w=20", "/_detail/a.png", "/_export/raw/wiki/a", "/start?do=edit", "/lib/exe/fetch.php?media=x"],
        denied: &["data/pages/wiki/a.txt", "conf/users.auth.php", "inc/init.php", "vendor/README"],
    },
    Site {
        name: "symfony",
        package: None,
        files: &[
            "../config/bundles.php", "../bin/console", "index.php", "config.php", "app_dev.php", "info.php", "robots.txt",
            "bundles/a/a.css", "bundles/a/b.js", "build/app.1234.js", "build/manifest.json", "uploads/x.php", "dir/index.php",
        ],
        nginx: r"
            location ~ ^/index\.php(/|$) { {php} }
            location ~ \.php(/|$) { return 404; }
            location / { try_files $uri /index.php$is_args$args; }",
        more: &["/hello/x", "/api/posts?page=2", "/index.php/hello?x", "/post/5"],
        denied: &["config.php", "app_dev.php", "uploads/x.php", "dir/index.php"],
    },
    Site {
        name: "laravel",
        package: None,
        files: &[
            "../artisan", "../bootstrap/app.php", "index.php", "info.php", "robots.txt", "css/app.css", "js/app.js", "build/manifest.json",
            ".htaccess", ".env", "storage/a.png", "storage/evil.php", "vendor/telescope/app.js", "vendor/livewire/x.txt", "a/b.php",
        ],
        nginx: r"
            location ~ ^/index\.php(/|$) { {php} }
            location ~ /\.(?!well-known).* { deny all; }
            location ~ \.php(/|$) { return 404; }
            location / { try_files $uri $uri/ /index.php?$query_string; }",
        more: &["/login", "/posts?page=2", "/index.php/login", "/user/1/edit?x=y"],
        denied: &[".env", ".htaccess", "storage/evil.php", "a/b.php"],
    },
    Site {
        name: "drupal",
        package: None,
        files: &[
            "index.php", "update.php", "autoload.php", "robots.txt", "README.txt", "INSTALL.txt", "web.config", "core/lib/Drupal.php",
            "core/includes/bootstrap.inc", "core/install.php", "core/modules/node/node.module", "core/modules/node/node.info.yml",
            "core/misc/drupal.js", "core/themes/claro/a.css", "core/themes/claro/page.html.twig", "core/CHANGELOG.txt",
            "sites/default/settings.txt", "sites/default/files/a.png", "sites/default/files/evil.php", "sites/default/private/s.png",
            "sites/default/files/styles/thumb/a.png", "vendor/a/b.php", "vendor/a/c.css", "modules/x/x.install", "modules/x/a.js",
            "a.b/c.php", ".htaccess", "profiles/p.profile", "core/a.sh", "core/a.po", "Entries.txt2", "Repository",
        ],
        nginx: r"
            location ~* ^/(?!(robots|llms|ads|humans)\.txt$|\.well-known/).*\.(txt|log)$ { deny all; }
            location ~ \..*/.*\.php(/|$) { return 403; }
            location ~ ^/sites/.*/private/ { return 403; }
            location ~ ^/sites/[^/]+/files/.*\.php(/|$) { deny all; }
            location ~ (^|/)\.(?!well-known(/|$)) { return 403; }
            location ~ /vendor/.*\.php(/|$) { deny all; return 404; }
            location ~* \.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$ { deny all; return 404; }
            location ~ /(Entries[^/]*|Repository|Root|Tag|Template|composer\.(json|lock)|web\.config)$ { deny all; return 404; }
            location ~ \.php(/|$) { {php} }
            location / { try_files $uri /index.php?$query_string; }",
        more: &["/node/1", "/user/login?destination=a", "/admin/config", "/system/files/a.png", "/sites/default/files/styles/thumb/none.png"],
        denied: &["core/modules/node/node.module", "core/modules/node/node.info.yml", "sites/default/files/evil.php", "sites/default/private/s.png", "README.txt"],
    },
    Site {
        name: "nextcloud",
        package: None,
        files: &[
            "index.php", "remote.php", "public.php", "cron.php", "status.php", "version.php", "console.php", "occ", "ocs/v1.php", "ocs/v2.php",
            "ocs-provider/index.php", "updater/index.php", "core/ajax/update.php", "core/css/a.css", "core/js/a.mjs", "core/img/a.svg",
            "core/templates/x.php", "apps/files/js/a.js", "apps/files/lib/A.php", "apps/files/appinfo/info.xml", "config/config.php",
            "config/config.sample.txt", "data/admin/a.txt", "data/nextcloud.txt", "lib/base.php", "3rdparty/a.txt", "themes/a.css",
            "templates/a.txt", "build/a.txt", "tests/a.txt", "robots.txt", "AUTHORS", "db_structure.xml", "autotest.sh", ".htaccess",
            ".user.ini",
        ],
        nginx: r"
            location = / { if ( $http_user_agent ~ ^DavClnt ) { return 302 /remote.php/webdav/$is_args$args; } try_files $uri $uri/ /index.php$request_uri; }
            location ^~ /.well-known {
                location = /.well-known/carddav { return 301 /remote.php/dav/; }
                location = /.well-known/caldav { return 301 /remote.php/dav/; }
                location /.well-known/acme-challenge { try_files $uri $uri/ =404; }
                location /.well-known/pki-validation { try_files $uri $uri/ =404; }
                return 301 /index.php$request_uri;
            }
            location ~ ^/(?:build|tests|config|lib|3rdparty|templates|data)(?:$|/) { return 404; }
            location ~ ^/(?:\.|autotest|occ|issue|indie|db_|console) { return 404; }
            location ~ \.php(?:$|/) {
                rewrite ^/(?!index|remote|public|cron|core\/ajax\/update|status|ocs\/v[12]|updater\/.+|ocs-provider\/.+|.+\/richdocumentscode(_arm64)?\/proxy) /index.php$uri;
                {php}
            }
            location /remote { return 301 /remote.php$request_uri; }
            location / { try_files $uri $uri/ /index.php$uri$is_args$args; }",
        more: &["/apps/files/", "/login", "/s/abc", "/remote.php/dav/files/a", "/.well-known/carddav", "/.well-known/webfinger", "/.well-known/acme-challenge/none", "/ocs/v2.php/x?format=json"],
        denied: &["config/config.php", "data/admin/a.txt", "lib/base.php", "occ", "db_structure.xml"],
    },
    Site {
        name: "phpmyadmin",
        package: None,
        files: &[
            "index.php", "show_config_errors.php", "url.php", "themes/a/a.css", "themes/dot.gif", "js/dist/main.js", "js/vendor/jquery.js",
            "libraries/vendor_config.php", "libraries/classes/A.php", "libraries/x.txt", "templates/a.twig", "setup/index.php",
            "setup/lib/a.php", "setup/frames/menu.php", "sql/create_tables.txt", "examples/a.php", "examples/config.txt", "doc/html/index.html",
            "config.inc.php", "ChangeLog", "README", "vendor/a/a.txt", "locale/de/a.mo", "robots.txt", "favicon.ico",
        ],
        nginx: r"
            location ~ ^/(libraries|templates|sql|examples|setup/lib|setup/frames|vendor|tmp|locale|resources)(/|$) { deny all; }
            location ~ ^/(config\.inc\.php|ChangeLog|README|package\.json|yarn\.lock|babel\.config\.json)(/|$) { deny all; }
            location ~ \.php(/|$) { {php} }
            location / { try_files $uri $uri/ /index.php$is_args$args; }",
        more: &["/?server=1", "/index.php?route=/sql", "/setup/", "/setup"],
        denied: &["libraries/x.txt", "templates/a.twig", "setup/lib/a.php", "config.inc.php"],
    },
    Site {
        name: "roundcube",
        package: None,
        files: &[
            "index.php", "program/include/iniset.php", "program/js/app.js", "program/lib/a.php", "program/localization/de/labels.txt",
            "program/steps/a.txt", "program/resources/a.png", "skins/elastic/a.css", "skins/elastic/a.html", "plugins/a/a.js", "plugins/a/a.php",
            "config/config.txt", "config/x.php", "logs/errors.txt", "temp/x.png", "bin/update.sh", "SQL/mysql.initial.txt", "installer/index.php",
            "README.md", "INSTALL", "LICENSE", "CHANGELOG.md", "UPGRADING", "vendor/a/a.txt", ".htaccess", "robots.txt", "public_html/index.php",
        ],
        nginx: r"
            location ~ ^/(README(\.md)?|INSTALL|LICENSE|CHANGELOG(\.md)?|UPGRADING|SECURITY\.md)$ { deny all; }
            location ~ ^/(\.git|\.tx|SQL|bin|config|logs|temp|tests|vendor|program/(include|lib|localization|steps))(/|$) { deny all; }
            location ~ /(README\.md|composer\.json-dist|composer\.json|package\.json|Dockerfile)$ { deny all; }
            location ~ /\.(?!well-known(/|$)) { deny all; }
            location ~ \.php(/|$) { {php} }
            location / { try_files $uri $uri/ /index.php$is_args$args; }",
        more: &["/?_task=mail&_mbox=INBOX", "/index.php?_task=login", "/installer/"],
        denied: &["config/config.txt", "logs/errors.txt", "temp/x.png", "SQL/mysql.initial.txt"],
    },
    Site {
        name: "kanboard",
        package: None,
        files: &[
            "index.php", "jsonrpc.php", "cli", "config.php", "config.default.php", "app/constants.php", "app/common.php", "app/Controller/A.php",
            "app/Locale/de/a.txt", "assets/css/app.min.css", "assets/js/app.min.js", "assets/img/a.png", "data/db.sqlite", "data/files/a.txt",
            "data/debug.log", "libs/a.txt", "vendor/a/a.txt", "plugins/a/a.css", "plugins/a/Plugin.php", "favicon.ico", "robots.txt",
            "ChangeLog", "LICENSE", ".htaccess", "x.log",
        ],
        nginx: r"
            location ~ ^/(data|app|libs|vendor|tests)(/|$) { return 404; }
            location ~* ^.+\.(log|sqlite)$ { return 404; }
            location ~ /\.ht { return 404; }
            location ~ ^/(cli|config\.php|config\.default\.php|kanboard)(/|$) { return 404; }
            location ~ \.php(/|$) { {php} }
            location / { try_files $uri $uri/ /index.php$is_args$args; }",
        more: &["/?controller=Board", "/login", "/project/1/board", "/jsonrpc.php"],
        denied: &["data/db.sqlite", "data/files/a.txt", "config.php", "app/common.php"],
    },
    Site {
        name: "mybb",
        package: None,
        files: &[
            "index.php", "showthread.php", "forumdisplay.php", "member.php", "calendar.php", "announcements.php", "global.php", "css.php",
            "inc/class_core.php", "inc/config.txt", "inc/plugins/a.php", "cache/themes/theme1/a.css", "cache/a.txt", "admin/index.php",
            "admin/backups/a.txt", "admin/styles/a.css", "install/index.php", "install/resources/a.txt", "uploads/a.png", "uploads/evil.php",
            "uploads/avatars/b.php", "images/a.png", "jscripts/a.js", "htaccess.txt", "archive/index.php",
        ],
        nginx: r"
            location ~ ^/(inc|cache|admin/backups|install/resources|uploads/mfa)(/|$) { deny all; }
            location ~ ^/uploads/.*\.php(/|$) { deny all; }
            rewrite ^/forum-(\d+)\.html$ /forumdisplay.php?fid=$1;
            rewrite ^/forum-(\d+)-page-(\d+)\.html$ /forumdisplay.php?fid=$1&page=$2;
            rewrite ^/thread-(\d+)\.html$ /showthread.php?tid=$1;
            rewrite ^/thread-(\d+)-page-(\d+)\.html$ /showthread.php?tid=$1&page=$2;
            rewrite ^/thread-(\d+)-lastpost\.html$ /showthread.php?tid=$1&action=lastpost;
            rewrite ^/user-(\d+)\.html$ /member.php?action=profile&uid=$1;
            rewrite ^/calendar-(\d+)-year-(\d+)-month-(\d+)\.html$ /calendar.php?calendar=$1&year=$2&month=$3;
            location ~ \.php(/|$) { {php} }
            location / { try_files $uri $uri/ /index.php$is_args$args; }",
        more: &["/forum-2.html", "/forum-2-page-3.html?x=1", "/thread-12.html", "/thread-12-lastpost.html", "/user-1.html?a", "/calendar-1-year-2024-month-5.html"],
        denied: &["inc/config.txt", "inc/plugins/a.php", "cache/a.txt", "uploads/evil.php"],
    },
    Site {
        name: "shaarli",
        package: None,
        files: &[
            "index.php", "shaarli_version.php", "init.php", "application/bookmark/Bookmark.php", "application/a.txt", "cache/a.txt", "data/config.json.txt",
            "data/datastore.php", "inc/a.txt", "pagecache/a.txt", "tmp/a.txt", "tpl/default/css/a.css", "tpl/default/js/a.js", "tpl/default/a.html",
            "plugins/a/a.php", "plugins/a/a.css", "doc/html/index.html", "COPYING", "README.md", ".htaccess", "a.txt~", "tests/a.txt",
        ],
        nginx: r"
            location ~ ^/(application|cache|data|inc|pagecache|tests|tmp|vendor)(/|$) { deny all; }
            location ~ ^/index\.php(/|$) { {php} }
            location ~ \.php(/|$) { deny all; }
            location ~ (/\.(?!well-known(/|$))|~$) { deny all; }
            location / { try_files $uri /index.php$is_args$args; }",
        more: &["/shaare/abc", "/?searchtags=a", "/login", "/daily?day=1", "/feed/atom"],
        denied: &["data/datastore.php", "data/config.json.txt", "application/a.txt", "pagecache/a.txt"],
    },
];
