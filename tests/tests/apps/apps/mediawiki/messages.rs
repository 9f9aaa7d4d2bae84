//! HTML of messages that the snapshot keeps.

use std::process::Command;

use tests::bridged::served_in;
use tests::compare::Visitor;
use tests::peer::run_to_end;

use super::{
    Build, CLOCKS, DURATIONS, MODIFIED, MOMENTS, Pair, RENDERINGS, REQUESTS, Setup, TOKENS, add_bridge, add_settings,
    edit, extended, from_snapshots, leads_to, log_in, turn,
};

const ALONE: &str = "handlers of extensions may change every text";

/// A page that the boot has rendered, and one that has the same messages, are made without MediaWiki's parser: their texts are in the parser's cache.
#[test]
fn plain_messages_are_not_parsed_again() {
    const EXTENSION: &str = "$wgHooks['ParserFirstCallInit'][] = function () { header('X-Parser: made'); };\n";
    let build = Build::new("mediawiki");
    let application = build.site().ours;
    add_settings(&application, EXTENSION);
    add_bridge(&application);
    let root = application.join("htdocs");
    let parsed = |visitor: &mut Visitor, path: &str| {
        let page = visitor.get(path);
        assert!(page.status == 200 && page.text().contains("Main menu"), "{path}: {}", page.text());
        page.header("x-parser").is_some()
    };
    let classic = Setup::root(&root).start();
    let mut visitor = Visitor::new(classic.port);
    assert!([0; 2].map(|_| parsed(&mut visitor, "/wiki/Article_1"))[1]);
    let server = from_snapshots(Setup::root(&root)).start();
    let mut visitor = Visitor::new(server.port);
    for _ in 0..3 {
        assert!(!parsed(&mut visitor, "/wiki/Article_1"), "{}", server.log());
    }
    // In other languages, and where a text has a link in it, as ever.
    assert!(parsed(&mut visitor, "/wiki/Article_1?uselang=de"));
    assert!(parsed(&mut visitor, "/wiki/Article_1?action=history"));
    assert!(!parsed(&mut visitor, "/wiki/Article_1"));
    assert!(!server.log().contains(ALONE));
    served_in(&server, "snapshot");
}

/// A message that is edited in the wiki, whose text then is plain or not, is on the next page of each visitor.
#[test]
fn messages_edited_in_the_wiki_are_on_the_next_page() {
    let (_build, mut pair) = extended("");
    let mut others = pair.ports().map(Visitor::new);
    pair.allow(&[TOKENS, MODIFIED]);
    pair.flow("messages");
    leads_to(&log_in(&mut pair, "admin-test-pw"), "http://blog.test/wiki/Main_Page");
    for (text, shown) in [
        ("All of it", "All of it"),
        ("''All'' of $1", "<i>All</i> of <a"),
        ("{{SITENAME}} and {{NUMBEROFARTICLES}}", "Test Wiki and "),
        ("[[Nowhere]] and more", "redlink=1"),
        ("It&amp;s -- all {{PLURAL:2|one|two}}", "It&amp;s -- all two"),
    ] {
        let title = "MediaWiki:Retrievedfrom";
        leads_to(&edit(&mut pair, title, text, "wpSave"), &format!("http://blog.test/wiki/{title}"));
        for _ in 0..2 {
            assert!(pair.get("/wiki/Article_1").text().contains(shown), "{text}");
            turn(&mut pair, &mut others);
            assert!(pair.get("/wiki/Article_1").text().contains(shown), "{text}");
            turn(&mut pair, &mut others);
        }
    }
    // A text without a page of its own is of the page that the text before it was of, also if that one was known.
    leads_to(
        &edit(&mut pair, "MediaWiki:Toc", "Contents of {{PAGENAME}}", "wpSave"),
        "http://blog.test/wiki/MediaWiki:Toc",
    );
    leads_to(&edit(&mut pair, "Long_one", "__TOC__\n== A ==\n== B ==\n", "wpSave"), "http://blog.test/wiki/Long_one");
    for skin in ["vector", "vector-2022", "vector"] {
        let page = pair.get(&format!("/wiki/Long_one?useskin={skin}"));
        assert!(page.text().contains("Contents of Long one") || skin != "vector", "{}", page.text());
    }
    served_in(&pair.reprise, "snapshot");
}

/// In languages of other scripts, of variants that visitors choose, and of rules for spaces.
#[test]
fn messages_of_other_languages_are_as_under_fpm() {
    let build = Build::new("mediawiki");
    let site = build.site();
    for application in [&site.ours, &site.theirs] {
        let made = ["htdocs/maintenance/run.php", "rebuildLocalisationCache", "--lang=fr,zh-hans,zh-tw,sr-ec,he,ja"];
        run_to_end(Command::new("php").args(made).current_dir(application));
    }
    add_bridge(&site.ours);
    let list = [REQUESTS, DURATIONS, MOMENTS, CLOCKS, RENDERINGS];
    let mut pair = Pair::start(&site, "htdocs", &[&list], from_snapshots);
    for _ in 0..2 {
        for language in ["fr", "zh-hans", "zh-tw&variant=zh-tw", "sr-ec&variant=sr-el", "he", "ja", "qqx", "en"] {
            pair.page(&format!("/wiki/Article_1?uselang={language}"), 200);
        }
    }
}

/// An extension that changes texts by the visitor: from its settings on, or in the middle of a request. So is the name of the site.
#[test]
fn texts_that_an_extension_changes_are_the_visitor_s() {
    const CHANGE: &str =
        "function ($parser, &$text) { $text = str_replace('Main menu', 'Menu of ' . ($_GET['of'] ?? 'all'), $text); }";
    let always = format!("$wgHooks['ParserAfterTidy'][] = {CHANGE};\n");
    let late = format!(
        "$wgHooks['BeforeInitialize'][] = function () {{
            if (isset($_GET['of'])) {{
                \\MediaWiki\\MediaWikiServices::getInstance()->getHookContainer()->register('ParserAfterTidy', {CHANGE});
            }}
            $GLOBALS['wgSitename'] = $_GET['site'] ?? $GLOBALS['wgSitename'];
        }};\n"
    );
    for (extension, is_known) in [(always, true), (late, false)] {
        let (_build, mut pair) = extended(&extension);
        for who in ["Anna", "Bert", "Anna"] {
            assert!(page(&mut pair, &format!("?of={who}")).contains(&format!("Menu of {who}")));
            assert!(page(&mut pair, "").contains(if is_known { "Menu of all" } else { "Main menu" }));
            if !is_known {
                assert!(page(&mut pair, &format!("?site={who}")).contains(&format!("Search {who}")));
            }
        }
        assert_eq!(pair.reprise.log().contains(ALONE), is_known, "{}", pair.reprise.log());
        served_in(&pair.reprise, "snapshot");
    }
}

fn page(pair: &mut Pair, query: &str) -> String {
    pair.page(&format!("/wiki/Article_1{query}"), 200).text()
}
