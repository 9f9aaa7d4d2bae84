//! MediaWiki 1.43, where PHP is 8.4 or later: its pages and interfaces, and two visitors by turns, of whom one edits; in classic
//! mode, and from snapshots with the file of the Composer package.

mod visitors;

use std::fs;
use std::mem;
use std::path::Path;

use tests::bridged::served_in;
use tests::closed_list::{Pattern, decimal, hexadecimal};
use tests::compare::{Build, Pair, Site, Visitor, between};
use tests::server::{copy, project};
use tests::status::sum;
use tests::{Response, Setup};

use super::{get_with, leads_to};

/// Drawn from the session, for what a form or script does.
const TOKENS: Pattern = Pattern {
    name: "MediaWiki's tokens",
    before: &["value=\"", "Token\":\"", "token\":\""],
    of: hexadecimal,
    length: (40, 40),
    after: "+\\",
};
const REQUESTS: Pattern = Pattern {
    name: "MediaWiki's names of requests",
    before: &["\"wgRequestId\":\"", "x-request-id: ", "[", "\"reqId\":\""],
    of: hexadecimal,
    length: (24, 24),
    after: "",
};
const DURATIONS: Pattern = Pattern {
    name: "how long MediaWiki took",
    before: &["\"wgBackendResponseTime\":"],
    of: decimal,
    length: (1, 6),
    after: "}",
};
/// When a form was asked for, or a page of it was written.
const MOMENTS: Pattern = Pattern {
    name: "MediaWiki's moments",
    before: &["value=\"", "from=", "&quot;from&quot;:&quot;", "timestamp ", "data-mw-ts=\""],
    of: decimal,
    length: (14, 14),
    after: "",
};
/// The same, for readers.
const CLOCKS: Pattern = Pattern {
    name: "MediaWiki's days and hours",
    before: &[
        "fromFormatted&quot;:&quot;",
        "starting from ",
        "as of ",
        ", at ",
        "<span class=\"mw-changeslist-time\">",
    ],
    of: |c| c.is_ascii_alphanumeric() || ",: ".contains(c),
    length: (5, 30),
    after: "",
};
const MODIFIED: Pattern = Pattern {
    name: "when a page was edited",
    before: &["last-modified: ", "\"newtimestamp\":\"", "\"touched\":\"", "\"timestamp\":\""],
    of: |c| c.is_ascii_alphanumeric() || ",:- ".contains(c),
    length: (20, 29),
    after: "",
};
/// Of scripts and styles, counted from the moment of the answer.
const EXPIRY: Pattern = Pattern {
    name: "when an answer of MediaWiki's interfaces expires",
    before: &["expires: "],
    of: |c| c.is_ascii_alphanumeric() || ",: ".contains(c),
    length: (29, 29),
    after: "",
};
/// The present time, in each form that an account can choose.
const FORMS: Pattern = Pattern {
    name: "MediaWiki's forms of a time",
    before: &["\"label\":{\"html\":\""],
    of: |c| c.is_ascii_alphanumeric() || ",:- ".contains(c),
    length: (19, 24),
    after: "\"",
};
const SECONDS: Pattern = Pattern {
    name: "MediaWiki's time with seconds",
    before: &["-label'>"],
    of: |c| c.is_ascii_digit() || "T:-".contains(c),
    length: (19, 19),
    after: "",
};
const NOW: Pattern = Pattern {
    name: "the time at MediaWiki's server",
    before: &["\"time\":\""],
    of: |c| c.is_ascii_alphanumeric() || ":-".contains(c),
    length: (20, 20),
    after: "\"",
};

/// Of what a page was parsed from, drawn at the time.
const RENDERINGS: Pattern = Pattern {
    name: "MediaWiki's names of parsed pages",
    before: &["etag: \"4/"],
    of: |c| hexadecimal(c) || c == '-',
    length: (36, 36),
    after: "/",
};
/// Versions of modules that have pictures are made of the directory of the copy too.
const VERSIONS: Pattern = Pattern {
    name: "versions of MediaWiki's modules of pictures",
    before: &[
        "\"oojs-ui-core.icons\",\"",
        "\"oojs-ui-widgets.icons\",\"",
        "\"oojs-ui-toolbars.icons\",\"",
        "\"oojs-ui-windows.icons\",\"",
        "\"oojs-ui.styles.indicators\",\"",
        "\"oojs-ui.styles.icons-accessibility\",\"",
        "\"oojs-ui.styles.icons-alerts\",\"",
        "\"oojs-ui.styles.icons-content\",\"",
        "\"oojs-ui.styles.icons-editing-advanced\",\"",
        "\"oojs-ui.styles.icons-editing-citation\",\"",
        "\"oojs-ui.styles.icons-editing-core\",\"",
        "\"oojs-ui.styles.icons-editing-functions\",\"",
        "\"oojs-ui.styles.icons-editing-list\",\"",
        "\"oojs-ui.styles.icons-editing-styling\",\"",
        "\"oojs-ui.styles.icons-interactions\",\"",
        "\"oojs-ui.styles.icons-layout\",\"",
        "\"oojs-ui.styles.icons-location\",\"",
        "\"oojs-ui.styles.icons-media\",\"",
        "\"oojs-ui.styles.icons-moderation\",\"",
        "\"oojs-ui.styles.icons-movement\",\"",
        "\"oojs-ui.styles.icons-user\",\"",
        "\"oojs-ui.styles.icons-wikimedia\",\"",
        "\"skins.minerva.content.styles.images\",\"",
        "\"skins.minerva.overflow.icons\",\"",
        "\"skins.minerva.icons.wikimedia\",\"",
        "\"skins.minerva.personalMenu.icons\",\"",
        "\"skins.minerva.mainMenu.advanced.icons\",\"",
        "\"skins.minerva.mainMenu.icons\",\"",
        "\"skins.vector.icons.js\",\"",
        "\"skins.vector.icons\",\"",
        "\"ext.wikiEditor.images\",\"",
    ],
    of: version,
    length: (5, 5),
    after: "\"",
};
/// So are versions of lists with one of them.
const LISTS: Pattern = Pattern {
    name: "versions of MediaWiki's lists of modules",
    before: &["&sourcemap=1&version=", "etag: W/\""],
    of: version,
    length: (5, 5),
    after: "",
};

fn version(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// What answers with pages and what else answers, each from a snapshot of its own.
const SCRIPTS: [&str; 4] = ["index", "load", "api", "rest"];
const WARM: &str = "/wiki/Article_1 /wiki/Article_2?action=history /load.php?modules=startup&only=scripts&raw=1 \
    /load.php?modules=jquery&skin=vector-2022 /api.php?action=query&titles=Article_1&prop=info&format=json";

/// MediaWiki's pages, interfaces, logins and edits give the same responses as under nginx with PHP-FPM.
#[test]
fn mediawiki_answers_as_under_fpm() {
    let build = Build::new("mediawiki");
    visits(&build.site(), "classic");
}

/// So they do from snapshots, with the file of the Composer package.
#[test]
fn mediawiki_answers_as_under_fpm_from_a_snapshot() {
    let build = Build::new("mediawiki");
    let site = build.site();
    add_bridge(&site.ours);
    visits(&site, "snapshot");
    rewinds_are_fast(&site.ours);
}

/// An extension that changes the configuration by the request, where the snapshot was taken already: no service of the boot has what was before.
#[test]
fn what_an_extension_changes_by_the_request_holds_for_the_request() {
    const EXTENSION: &str = "$wgHooks['SetupAfterCache'][] = function () {
        if (isset($_GET['german'])) { $GLOBALS['wgLanguageCode'] = 'de'; $GLOBALS['wgMetaNamespace'] = 'Deutsch'; }
    };\n";
    let (_build, mut pair) = extended(EXTENSION);
    // Parsed in English on both sides, as the boot has parsed it on one.
    for _ in 0..2 {
        for (path, language) in [("/wiki/Article_1", "en"), ("/wiki/Article_1?german=1", "de")] {
            assert_eq!(pair.page(path, 200).header("content-language"), Some(language), "{path}");
        }
        assert!(pair.page("/wiki/Project:Nowhere?german=1", 404).text().contains("Deutsch:Nowhere"));
    }
    served_in(&pair.reprise, "snapshot");
}

/// A service that would stay, and that knows the request by which it was made, does not stay.
#[test]
fn a_service_that_knows_its_request_is_made_anew() {
    const EXTENSION: &str = "$wgHooks['MediaWikiServices'][] = function ($services) {
        $services->redefineService('UserIdentityUtils', function ($services) {
            $one = new class($services->getTempUserConfig()) extends \\MediaWiki\\User\\UserIdentityUtils { public $kept = []; };
            $one->kept['of'] = fn () => \\MediaWiki\\Context\\RequestContext::getMain();
            $request = \\MediaWiki\\Context\\RequestContext::getMain()->getRequest();
            $one->kept['request'] = static fn () => $request->getVal('title');
            return $one;
        });
    };
    $wgHooks['BeforePageDisplay'][] = function ($page) {
        $kept = \\MediaWiki\\MediaWikiServices::getInstance()->getUserIdentityUtils()->kept;
        $page->addHTML('<p>asked for ' . htmlspecialchars($kept['request']()) . '</p>');
    };\n";
    let (_build, mut pair) = extended(EXTENSION);
    for title in ["Article_1", "Article_2", "Article_3", "Article_1"] {
        let page = pair.page(&format!("/wiki/{title}"), 200).text();
        assert!(page.contains(&format!("asked for {title}<")), "{title}");
    }
    served_in(&pair.reprise, "snapshot");
}

fn extended(extension: &str) -> (Build, Pair) {
    let build = Build::new("mediawiki");
    let site = build.site();
    for application in [&site.ours, &site.theirs] {
        add_settings(application, extension);
    }
    add_bridge(&site.ours);
    let list = [REQUESTS, DURATIONS, MOMENTS, CLOCKS, RENDERINGS];
    let pair = Pair::start(&site, "htdocs", &[&list], from_snapshots);
    (build, pair)
}

fn add_bridge(application: &Path) {
    copy(&project().join("composer"), &application.join("reprise"));
    add_settings(application, &format!("require '{}/reprise/mediawiki/reprise.php';\n", application.display()));
}

fn add_settings(application: &Path, lines: &str) {
    let settings = application.join("htdocs/LocalSettings.php");
    let text = fs::read_to_string(&settings).expect("LocalSettings.php");
    fs::write(settings, text + lines).expect("LocalSettings.php");
}

fn from_snapshots(setup: Setup) -> Setup {
    with_snapshots(setup).flag("--audit")
}

fn with_snapshots(setup: Setup) -> Setup {
    let setup = setup.env("REPRISE_WARMUP", WARM);
    SCRIPTS.iter().fold(setup, |setup, script| setup.application(&format!("mode.\"{script}.php\" = \"snapshot\"")))
}

/// Nothing is on the list before it has to be.
fn visits(site: &Site, mode: &str) {
    let list = [REQUESTS, DURATIONS, MOMENTS, CLOCKS, RENDERINGS];
    let configure = |setup| if mode == "snapshot" { from_snapshots(setup) } else { setup };
    let mut pair = Pair::start(site, "htdocs", &[&list], configure);
    pages(&mut pair);
    pair.allow(&[TOKENS, MODIFIED, FORMS, SECONDS]);
    by_turns(&mut pair);
    pair.allow(&[EXPIRY, NOW, VERSIONS, LISTS]);
    interfaces(&mut pair);
    pair.report(&format!("MediaWiki, {mode}"));
    if mode == "snapshot" {
        served_in(&pair.reprise, mode);
    }
}

/// Pages and what they load, by one visitor after the other: nearly no rewind has to look for what was written.
fn rewinds_are_fast(application: &Path) {
    let setup = from_snapshots(Setup::root(&application.join("htdocs"))).application("workers = 1");
    let server = setup.start();
    let mut client = Visitor::new(server.port);
    let mut visit = |times: usize| {
        for number in 0..times {
            let page = client.get(&format!("/wiki/Article_{}", number % 3 + 1));
            assert_eq!(page.status, 200, "{}", page.text());
        }
    };
    let counted = || ["fast", "scanned"].map(|name| sum(&server.status(&["--json"]), name));
    visit(60);
    let before = counted();
    visit(300);
    let [fast, scanned] = counted();
    let share = 100 * (fast - before[0]) / (fast - before[0] + scanned - before[1]).max(1);
    assert!(share >= 95, "{share} % of the rewinds are fast: {before:?}, {fast} {scanned}");
}

fn pages(pair: &mut Pair) {
    // Parsed, and then out of the parser's cache.
    for _ in 0..2 {
        for number in 1..=3 {
            let page = pair.page(&format!("/wiki/Article_{number}"), 200).text();
            assert!(page.contains("the first") && page.contains(&format!("<td>{}", number * number)), "{page}");
        }
    }
    pair.pages(&["/wiki/Main_Page", "/index.php/Article_4", "/wiki/Help:Editing", "/wiki/Category:Seeds"]);
    assert!(pair.page("/index.php?title=Old_name", 200).text().contains("Redirected from"));
    pair.page("/wiki/Nowhere", 404);
    pair.page("/wiki/Special:Nothing", 404);
    pair.page("/wiki/A%5B%5D", 404);
    pair.pages(&["/index.php?title=Article_1&action=history", "/index.php?title=Article_1&action=info"]);
    pair.pages(&["/index.php?title=Article_1&action=raw", "/index.php?title=Article_1&useskin=monobook"]);
    pair.pages(&["/wiki/Special:RecentChanges?days=30", "/wiki/Special:AllPages", "/wiki/Special:Version"]);
    pair.pages(&["/wiki/Special:WhatLinksHere/Article_2", "/wiki/Special:ListUsers", "/wiki/Special:SpecialPages"]);
    assert!(pair.page("/index.php?search=number&fulltext=1", 200).text().contains("searchmatch"));
    pair.request("HEAD", 200, |visitor| visitor.request("HEAD", "/wiki/Article_1", &[], b""));
    let kept = |visitor: &mut Visitor| {
        let known = visitor.get("/wiki/Article_1").header("last-modified").expect("a time").to_owned();
        get_with(visitor, "/wiki/Article_1", "If-Modified-Since", &known)
    };
    assert_eq!(pair.request("a known page", 304, kept).body, b"");
    // A language that shows the names of messages, and the site's own again.
    for _ in 0..2 {
        pair.pages(&[
            "/wiki/Article_1?uselang=qqx",
            "/wiki/Special:RecentChanges?days=30&uselang=qqx",
            "/wiki/Article_1",
        ]);
    }
    names_of_requests(pair);
}

/// Each request has a name of its own.
fn names_of_requests(pair: &mut Pair) {
    let named =
        |visitor: &mut Visitor| visitor.get("/wiki/Article_1").header("x-request-id").expect("a name").to_owned();
    pair.forget();
    let names = [named(&mut pair.ours), named(&mut pair.ours), named(&mut pair.theirs)];
    assert!(names[0] != names[1] && names.iter().all(|name| name.len() == 24), "{names:?}");
}

fn interfaces(pair: &mut Pair) {
    let skin = "lang=en&skin=vector-2022";
    pair.page(&format!("/load.php?modules=startup&only=scripts&raw=1&{skin}"), 200);
    pair.page(&format!("/load.php?modules=skins.vector.styles%7Cext.cite.styles&only=styles&{skin}"), 200);
    pair.page(&format!("/load.php?modules=jquery%7Cmediawiki.util&{skin}"), 200);
    pair.page(&format!("/load.php?modules=none.such&{skin}"), 200);
    let query = "/api.php?format=json&formatversion=2&action=";
    for what in [
        "query&titles=Article_1&prop=info%7Crevisions%7Ccategories%7Clinks&rvprop=ids%7Ccontent&rvslots=main",
        "query&list=allpages%7Ccategorymembers&cmtitle=Category:Seeds",
        "query&list=search&srsearch=square",
        "query&meta=siteinfo",
        "parse&page=Article_2&prop=text%7Csections",
        "opensearch&search=Art",
        "none",
    ] {
        pair.page(&format!("{query}{what}"), 200);
    }
    pair.page("/api.php", 200);
    pair.pages(&[
        "/rest.php/v1/page/Article_1",
        "/rest.php/v1/page/Article_1/html",
        "/rest.php/v1/search/page?q=number",
    ]);
    pair.page("/rest.php/v1/page/Article_1/history", 200);
    pair.page("/opensearch_desc.php", 308);
    pair.page("/rest.php/v1/page/Nowhere", 404);
    pair.page("/rest.php/v1/nothing", 404);
}

/// Changes whose turn it is.
fn turn(pair: &mut Pair, others: &mut [Visitor; 2]) {
    let [ours, theirs] = others;
    mem::swap(&mut pair.ours, ours);
    mem::swap(&mut pair.theirs, theirs);
}

/// A hidden field, whose value stands before its name or behind.
fn field(page: &str, name: &str) -> String {
    let end = page.find(&format!("name=\"{name}\"")).unwrap_or_else(|| panic!("no {name} in {page}"));
    let begin = page[..end].rfind("<input").expect("a field");
    between(&page[begin..], "value=\"", "\"").to_owned()
}

fn log_in(pair: &mut Pair, password: &str) -> Response {
    let find = |page: &str| field(page, "wpLoginToken");
    let path = "/index.php?title=Special:UserLogin";
    pair.submit("a login", path, find, |visitor, token| {
        let form = [("wpName", "Admin"), ("wpPassword", password), ("wpLoginToken", token), ("authAction", "login")];
        visitor.post_form(path, &form)
    })
}

/// Edits a page; `button` saves it, or shows what would be saved.
fn edit(pair: &mut Pair, title: &str, text: &str, button: &str) -> Response {
    const FIELDS: [&str; 6] =
        ["wpEditToken", "wpStarttime", "wpEdittime", "editRevId", "wpUnicodeCheck", "wpAutoSummary"];
    let find = |page: &str| FIELDS.map(|name| field(page, name)).join("\n");
    let path = format!("/index.php?title={title}&action=edit");
    pair.submit(&format!("{button} of {title}"), &path, find, |visitor, found| {
        let mut form: Vec<(&str, &str)> = FIELDS.into_iter().zip(found.lines()).collect();
        form.extend([("wpTextbox1", text), ("wpSummary", "A <change>"), (button, "1"), ("wpUltimateParam", "1")]);
        visitor.post_form(&format!("/index.php?title={title}&action=submit"), &form)
    })
}

/// A visitor without an account and one who is logged in.
fn by_turns(pair: &mut Pair) {
    leads_to(&pair.page("/", 301), "http://blog.test/wiki/Main_Page");
    leads_to(&pair.page("/index.php?search=Article+5&go=Go", 302), "http://blog.test/wiki/Article_5");
    pair.page("/wiki/Special:Preferences", 302);
    pair.flow("two visitors");
    let mut others = pair.ports().map(Visitor::new);
    assert!(log_in(pair, "wrong").text().contains("Incorrect username or password entered."));
    turn(pair, &mut others);
    assert!(pair.get("/wiki/Main_Page").text().contains("\"wgUserName\":null"));
    turn(pair, &mut others);
    leads_to(&log_in(pair, "admin-test-pw"), "http://blog.test/wiki/Main_Page");
    assert!(pair.get("/wiki/Main_Page").text().contains("\"wgUserName\":\"Admin\""));
    turn(pair, &mut others);
    assert!(pair.get("/wiki/Main_Page").text().contains("\"wgUserName\":null"));

    pair.go_on("edits by turns");
    assert!(
        edit(pair, "Article_2", "''A stranger's'' [[Article 1]].", "wpPreview").text().contains("<i>A stranger's</i>")
    );
    turn(pair, &mut others);
    assert!(edit(pair, "Article_2", "'''Admin's''' {{Box|one}}", "wpDiff").text().contains("diff-addedline"));
    let saved = edit(pair, "Article_2", "'''Admin's''' {{Box|one}} [[Category:Seeds]]", "wpSave");
    leads_to(&saved, "http://blog.test/wiki/Article_2");
    turn(pair, &mut others);
    assert!(pair.get("/wiki/Article_2").text().contains("<b>Admin's</b>"));
    assert_eq!(edit(pair, "Article_2", "A stranger's", "wpSave").status, 302);
    turn(pair, &mut others);
    assert!(pair.get("/wiki/Article_2").text().contains("A stranger's"));
    pair.get("/wiki/Special:Watchlist");
    pair.get("/wiki/Special:Preferences");
    let me = "/api.php?action=query&meta=userinfo%7Ctokens&format=json";
    assert!(pair.get(me).text().contains("\"name\":\"Admin\""));
    turn(pair, &mut others);
    assert!(pair.get(me).text().contains("\"anon\":\"\""));
    turn(pair, &mut others);

    pair.go_on("logging out");
    let find = |page: &str| field(page, "wpEditToken");
    let path = "/index.php?title=Special:UserLogout";
    let bye = pair.submit("of Admin", path, find, |visitor, token| visitor.post_form(path, &[("wpEditToken", token)]));
    assert!(bye.status < 400, "{}", bye.status);
    assert!(pair.get("/wiki/Main_Page").text().contains("\"wgUserName\":null"));
}
