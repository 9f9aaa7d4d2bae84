//! What the makers of applications document for nginx, and what their trees have in them. In documented/*.conf `{php}` runs a
//! script, with a path info where the location lets one through. trees/*.txt are listings: some files of each directory of the
//! Debian package, or where there is none of the tree as its makers publish it.

/// An application.
pub struct Site {
    /// The preset's name.
    pub name: &'static str,
    /// The locations of the documented configuration.
    pub nginx: &'static str,
    /// The listing of its tree.
    pub listing: &'static str,
    /// What people keep in it, and what they and others leave there.
    pub files: &'static [&'static str],
    /// Where its whole tree is.
    pub tree: Tree,
    /// What its rules name: files and directories.
    pub places: &'static [&'static str],
    /// What its rules name: endings.
    pub endings: &'static [&'static str],
    /// Further URLs.
    pub more: &'static [&'static str],
    /// What the preset denies beyond the documented configuration, if it is there: parts of paths.
    pub beyond: &'static [&'static str],
    /// Files that its rules deny.
    pub denied: &'static [&'static str],
}

/// Where the whole tree of an application is.
pub enum Tree {
    /// The listing is all there is: no package of Debian has it.
    Listing,
    /// In a package that the tests need anyway.
    Installed(&'static str),
    /// In a package that tests/apps/unpack.sh unpacks, for `./test --full`; otherwise the listing stands for it.
    Unpacked(&'static str),
}

macro_rules! site {
    ($name:literal, $listing:expr, $tree:expr, $($field:ident: $value:expr,)*) => {
        Site {
            name: $name,
            nginx: include_str!(concat!("documented/", $name, ".conf")),
            listing: $listing,
            tree: $tree,
            $($field: $value,)*
        }
    };
}

/// All applications that have a preset.
// Lists of names: one a line would be three times as long.
#[rustfmt::skip]
pub const SITES: &[Site] = &[
    site!(
        "wordpress", "", Tree::Installed("/usr/share/wordpress"),
        files: &[
            "wp-content/uploads/2024/a.png", "wp-content/uploads/evil.php", "wp-content/uploads/2024/05/b.php", "files/c.php",
            "wp-content/blogs.dir/1/files/d.php", ".htaccess", "wp-content/.env", "robots.txt", ".well-known/security.txt",
            "wp-includes/version.php", "wp-load.php", "wp-login.php", "wp-cron.php", "wp-admin/index.php", "wp-admin/css/a.css", "index.php",
            "wp-content/plugins/a/a.php.bak", "wp-content/debug.log", "wp-content/themes/a/c.inc",
        ],
        places: &[
            "wp-content/uploads", "files", ".git", ".well-known", "wp-content/blogs.dir/1/files", "wp-admin",
        ],
        endings: &[".php", ".png", ".htaccess", ".rss", ".zip"],
        more: &[
            "/2024/05/hello/", "/feed/", "/?p=1", "/wp-admin", "/wp-admin/", "/wp-json/wp/v2/posts?x=1", "/blog/wp-admin", "/none.png",
            "/wp-login.php?action=register",
        ],
        beyond: &[],
        denied: &[
            "wp-content/uploads/evil.php", "wp-content/uploads/2024/05/b.php", "files/c.php", ".htaccess",
        ],
    ),
    site!(
        "mediawiki", include_str!("trees/mediawiki.txt"), Tree::Unpacked("var/lib/mediawiki"),
        files: &[
            "thumb_handler.php", "LocalSettings.php", "images/a/ab/Cat.png", "images/evil.php",
            "images/thumb/a/ab/Cat.png/120px-Cat.png", "images/deleted/a/b/secret.png", "skins/Vector/skin.json", "skins/Vector/a.css",
            "skins/Vector/includes/S.php", "docs/a.txt", "maintenance/run.php", "maintenance/tables.txt", "cache/l10n.txt",
            "tests/a.txt", "sql/a.txt", "COPYING", "CREDITS", "HISTORY", "RELEASE-NOTES-1.43", "UPGRADE", "package.json",
            "jsduck.json", "resources/lib/jquery/jquery.js", "robots.txt", "includes/Defines.php", ".well-known/security.txt",
            "mw-config/config.css", "images/README", "extensions/Cite/README.txt", "bin/ulimit5.sh",
        ],
        places: &[
            "cache", "includes", "languages", "maintenance", "serialized", "sql", "tests", "vendor", "bin", "images", "images/deleted",
            "skins", "extensions", "resources/assets", "resources", "mw-config", "wiki", "rest.php", "docs",
        ],
        endings: &[".php", ".css", ".json", ".wasm", ".woff2"],
        more: &[
            "/wiki/Main_Page", "/wiki/A/B?action=edit", "/rest.php/v1/page/A", "/index.php/Main_Page", "/images/none.png", "/",
            "/docs/none.txt", "/mw-config/", "/mw-config/index.php?page=Welcome", "/load.php?modules=startup",
        ],
        beyond: &[],
        denied: &[
            "images/deleted/a/b/secret.png", "images/evil.php", "LocalSettings.php", "maintenance/run.php", "skins/Vector/skin.json",
            "HISTORY",
        ],
    ),
    site!(
        "dokuwiki", include_str!("trees/dokuwiki.txt"), Tree::Unpacked("usr/share/dokuwiki"),
        files: &[
            "conf/local.php", "conf/users.auth.php", "conf/acl.auth.php", "conf/mime.conf", "data/pages/wiki/start.txt",
            "data/cache/a.txt", "data/media/wiki/a.png", "lib/plugins/a/conf/default.php", "lib/plugins/a/lang/en/lang.php",
            "lib/tpl/a/main.php", "lib/plugins/a/bin/a.php", "lib/plugins/a/vendor/b.php", "lib/plugins/a/vendor/c.css", "README",
            "COPYING", ".htaccess.dist", "VERSION", "lib/exe/opensearch.php", "vendor/README", ".well-known/security.txt",
            "lib/exe/css.php", "lib/exe/fetch.php", "lib/exe/detail.php",
        ],
        places: &[
            "data", "conf", "bin", "inc", "vendor", "lib/plugins/a/conf", "install.php", "_media", "_detail", "_export", "_export/raw",
            "wiki/conf", ".ht",
        ],
        endings: &[".php", ".txt", ".htaccess"],
        more: &[
            "/wiki/start", "/_media/wiki/a.png?w=20", "/_detail/a.png", "/_export/raw/wiki/a", "/start?do=edit",
            "/lib/exe/fetch.php?media=x", "/", "/?id=start", "/install.php", "/wiki/conf/page", "/lib/exe/css.php?t=dokuwiki",
        ],
        beyond: &[],
        denied: &[
            "data/pages/wiki/a.txt", "conf/users.auth.php", "inc/init.php", "vendor/README", "lib/plugins/a/conf/default.php",
            "data/media/wiki/a.png",
        ],
    ),
    site!(
        "symfony", include_str!("trees/symfony.txt"), Tree::Listing,
        files: &[],
        places: &[
            "index.php", "bundles", "build", "uploads", "dir", "legacy",
        ],
        endings: &[".php", ".phtml", ".inc", ".css"],
        more: &[
            "/hello/x", "/api/posts?page=2", "/index.php/hello?x", "/post/5",
        ],
        beyond: &[],
        denied: &[
            "config.php", "app_dev.php", "uploads/x.php", "dir/index.php",
        ],
    ),
    site!(
        "laravel", include_str!("trees/laravel.txt"), Tree::Listing,
        files: &[],
        places: &[
            "index.php", "storage", "build", "vendor", ".git", ".well-known", "a",
        ],
        endings: &[".php", ".phtml", ".inc", ".env"],
        more: &[
            "/login", "/posts?page=2", "/index.php/login", "/user/1/edit?x=y",
        ],
        beyond: &[],
        denied: &[
            ".env", ".htaccess", "storage/evil.php", "a/b.php",
        ],
    ),
    site!(
        "drupal", include_str!("trees/drupal.txt"), Tree::Listing,
        files: &[],
        places: &[
            "vendor", "sites/default/files", "sites/default/private", "sites/x/private", "core/modules", ".git", ".well-known",
            "system/files", "de/system/files", "sites/default/files/styles", "index.php", "update.php", "a.b",
        ],
        endings: &[
            ".engine", ".inc", ".install", ".make", ".module", ".profile", ".po", ".sh", ".sql", ".theme", ".twig", ".tpl", ".tpl.php",
            ".xtmpl", ".yml", ".txt", ".log", ".inc.bak", ".php~", ".php.swp", ".mysql", ".php",
        ],
        more: &[
            "/node/1", "/user/login?destination=a", "/admin/config", "/system/files/a.png",
            "/sites/default/files/styles/thumb/none.png", "/index.php/node/1", "/de/system/files/a.png", "/core/rebuild.php",
            "/update.php/selection",
        ],
        beyond: &["/Entries", "/Repository", "/Root", "/Tag", "/Template", "/composer.", "/web.config", "#"],
        denied: &[
            "core/modules/node/node.module", "core/modules/node/node.info.yml", "sites/default/files/evil.php",
            "sites/default/private/s.png", "core/lib/README.txt",
        ],
    ),
    site!(
        "nextcloud", include_str!("trees/nextcloud.txt"), Tree::Listing,
        files: &[],
        places: &[
            "build", "tests", "config", "lib", "3rdparty", "templates", "data", ".well-known", ".well-known/acme-challenge",
            ".well-known/pki-validation", "autotest", "occ", "issue", "indie", "db_", "console", "remote", "remote.php", "ocs/v1.php",
            "ocs-provider", "updater", "core/ajax", "apps/richdocumentscode/proxy.php", "index.php",
        ],
        endings: &[".php", ".css", ".mjs", ".svg", ".woff2", ".otf", ".tflite", ".flac"],
        more: &[
            "/apps/files/", "/login", "/s/abc", "/remote.php/dav/files/a", "/.well-known/carddav", "/.well-known/webfinger",
            "/.well-known/acme-challenge/none", "/ocs/v2.php/x?format=json", "/remote/x", "/remotefoo", "/robots.txt",
            "/index.php/apps/files?dir=/", "/core/preview?fileId=1",
        ],
        beyond: &[],
        denied: &[
            "config/config.php", "data/admin/a.txt", "lib/base.php", "occ", "db_structure.xml",
        ],
    ),
    site!(
        "phpmyadmin", include_str!("trees/phpmyadmin.txt"), Tree::Unpacked("usr/share/phpmyadmin"),
        files: &[
            "config.inc.php", "setup/index.php", "setup/lib/a.php", "setup/frames/menu.php", "examples/a.php", "examples/config.txt",
            "ChangeLog", "README", "vendor/a/a.txt", "tmp/twig/a.php", "package.json", "yarn.lock", "babel.config.json",
            "libraries/vendor_config.php", "libraries/x.txt", "resources/templates/a.twig", "templates/a.twig", "doc/html/index.html",
            "RELEASE-DATE-5.2.1", "LICENSE",
        ],
        places: &[
            "libraries", "templates", "sql", "examples", "setup", "setup/lib", "setup/frames", "vendor", "tmp", "locale", "resources",
            "config.inc.php", "ChangeLog", "README", "doc",
        ],
        endings: &[".php", ".twig", ".sql"],
        more: &[
            "/?server=1", "/index.php?route=/sql", "/setup/", "/setup",
        ],
        beyond: &["/RELEASE-DATE-"],
        denied: &[
            "libraries/x.txt", "templates/a.twig", "setup/lib/a.php", "config.inc.php",
        ],
    ),
    site!(
        "roundcube", include_str!("trees/roundcube.txt"), Tree::Unpacked("var/lib/roundcube"),
        files: &[
            "config/config.txt", "logs/errors.txt", "temp/x.png", "bin/update.sh", "installer/index.php", "installer/styles.css",
            "README.md", "INSTALL", "LICENSE", "CHANGELOG.md", "UPGRADING", "vendor/a/a.txt", ".htaccess", "robots.txt",
            "skins/elastic/meta.json", "plugins/acl/composer.json", "plugins/acl/README", "plugins/acl/acl.css", "jsdeps.json",
            "program/js/app.min.js", "tests/a.txt", "plugins/managesieve/Changelog", "composer.json-dist", "SECURITY.md",
            "SQL/mysql.initial.txt", "program/include/iniset.php",
        ],
        places: &[
            ".git", ".tx", "SQL", "bin", "config", "logs", "temp", "tests", "vendor", "program/include", "program/lib",
            "program/localization", "program/steps", "installer", "plugins", "skins", "README", "CHANGELOG",
        ],
        endings: &[".php", ".md", "/README.md", "/meta.json", "/composer.json", "/jsdeps.json", "/SECURITY.md"],
        more: &[
            "/?_task=mail&_mbox=INBOX", "/index.php?_task=login", "/installer/",
        ],
        beyond: &[],
        denied: &[
            "config/config.txt", "logs/errors.txt", "temp/x.png", "SQL/mysql.initial.txt", "skins/elastic/meta.json",
            "plugins/acl/README",
        ],
    ),
    site!(
        "kanboard", include_str!("trees/kanboard.txt"), Tree::Unpacked("usr/share/kanboard"),
        files: &[
            "config.php", "config.default.php", "data/db.sqlite", "data/files/a.txt", "data/debug.log", "plugins/a/a.css",
            "plugins/a/Plugin.php", "plugins/a/Assets/a.js", "plugins/a/Test/b.php", "ChangeLog", "LICENSE", ".htaccess", "x.log",
            "web.config", "healthcheck.php", "tests/a.txt", "kanboard", "plugins/a/data/a.sqlite", "app/common.php",
            "app/constants.php", "plugins/README.md",
        ],
        places: &[
            "data", "app", "libs", "vendor", "tests", "cli", "config.php", "kanboard", "plugins", "plugins/a/data", "assets",
            "jsonrpc.php", "healthcheck.php", "index.php",
        ],
        endings: &[".php", ".log", ".sqlite", ".htaccess", ".css"],
        more: &[
            "/?controller=Board", "/login", "/project/1/board", "/jsonrpc.php", "/healthcheck.php", "/t/12", "/b/2?x=y",
        ],
        beyond: &["/tests", "/kanboard"],
        denied: &[
            "data/db.sqlite", "data/files/a.txt", "config.php", "app/common.php", "plugins/a/Plugin.php",
        ],
    ),
    site!(
        "mybb", include_str!("trees/mybb.txt"), Tree::Listing,
        files: &[],
        places: &[
            "inc", "admin/inc", "admin/backups", "install/resources", "uploads", "uploads/mfa", "cache", "cache/themes",
            "archive/index.php", "error.log", "images",
        ],
        endings: &[".php", ".html", ".log"],
        more: &[
            "/forum-2.html", "/forum-2-page-3.html?x=1", "/thread-12.html", "/thread-12-lastpost.html", "/user-1.html?a",
            "/calendar-1-year-2024-month-5.html", "/calendar-1-year-2024.html", "/thread-3-post-4.html",
            "/thread-3-post-4-linear.html", "/post-7.html", "/event-3.html", "/announcement-4.html", "/calendar-2.html",
            "/calendar-2-week-n345600.html", "/calendar-1-year-2024-month-5-day-7.html", "/archive/index.php?thread-12.html",
            "/forum-x.html", "/thread-12-other.html", "/admin/inc/functions.php",
        ],
        beyond: &["/cache", "/install/resources", "/uploads/mfa", "/admin/backups"],
        denied: &[
            "inc/config.txt", "inc/plugins/a.php", "admin/backups/notes.txt", "uploads/evil.php", "admin/inc/functions.php",
        ],
    ),
    site!(
        "shaarli", include_str!("trees/shaarli.txt"), Tree::Unpacked("usr/share/shaarli"),
        files: &[
            "data/config.json.php", "data/config.json.txt", "data/datastore.php", "data/log.txt", "data/history.php", "cache/a.txt",
            "pagecache/a.txt", "cache/thumb/a1b2c3/d4.jpg", "tmp/a.tpl.php", "tests/a.txt", "README.md", "COPYING", "AUTHORS",
            "CHANGELOG.md", "a.txt~", "composer.lock", "package.json", "robots.txt", "plugins/a/a.meta", "plugins/a/a.html",
            "plugins/a/a.css", "tpl/default/linklist.html", "tpl/default/img/favicon.png", "application/a.txt",
            "inc/languages/de/LC_MESSAGES/shaarli.po", "inc/a.css", "vendor/a/a.png", ".well-known/acme-challenge/token",
        ],
        places: &[
            "application", "cache", "cache/thumb", "data", "inc", "pagecache", "tests", "tmp", "vendor", "doc/html", "index.php",
            "tpl", ".git",
        ],
        endings: &[".php", ".html", ".json", ".css", ".ttf", ".woff2", ".md", "~"],
        more: &[
            "/shaare/abc", "/?searchtags=a", "/login", "/daily?day=1", "/feed/atom", "/doc/html/Usage/",
            "/doc/html/Usage", "/cache/thumb/a1b2c3/d4.jpg",
        ],
        beyond: &[],
        denied: &[
            "data/datastore.php", "data/config.json.txt", "application/a.txt", "pagecache/a.txt", "README.md",
            "tpl/default/linklist.html",
        ],
    ),
];
