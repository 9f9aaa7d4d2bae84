//! Visitors of MediaWiki at the same time, two of them logging in and out: see `interleaved.rs`.

use std::path::Path;
use std::process::Command;

use tests::Setup;
use tests::amount;
use tests::compare::Build;
use tests::peer::run_to_end;
use tests::snapshot::requests;

use super::{add_bridge, add_settings, field, with_snapshots};
use crate::interleaved::{MARKS, Site, report};

const LOGIN: &str = "/index.php?title=Special:UserLogin";
const LOGOUT: &str = "/index.php?title=Special:UserLogout";

const MEDIAWIKI: Site = Site {
    address: |what, own| format!("/index.php?title=Article_1&mark={what}&q={own}"),
    desk: "/wiki/Special:Watchlist",
    front: "/index.php?title=Special:Search&fulltext=1&search=",
    log_in: |visitor, name| {
        let token = field(&visitor.get(LOGIN).text(), "wpLoginToken");
        let password = password(name);
        let form = [("wpName", name), ("wpPassword", &password), ("wpLoginToken", &token), ("authAction", "login")];
        visitor.post_form(LOGIN, &form)
    },
    log_out: |visitor| {
        let token = field(&visitor.get(LOGOUT).text(), "wpEditToken");
        let bye = visitor.post_form(LOGOUT, &[("wpEditToken", &token)]);
        assert!(bye.status < 400, "{}", bye.text());
    },
};

fn password(name: &str) -> String {
    format!("{name} pw")
}

fn add_account(name: &str, application: &Path) {
    let made = ["htdocs/maintenance/run.php", "createAndPromote", name, &password(name)];
    run_to_end(Command::new("php").args(made).current_dir(application));
}

/// From a snapshot no byte of one visitor of MediaWiki is in another's response.
#[test]
fn mediawiki_s_visitors_are_kept_apart() {
    let build = Build::new("mediawiki");
    let application = build.site().ours;
    add_bridge(&application);
    add_settings(&application, &format!("require '{}/mark.php';\n", application.display()));
    MARKS[..2].iter().for_each(|name| add_account(name, &application));
    let setup = Setup::root(&application.join("htdocs")).application("cache_memory = 0");
    report("mediawiki", &with_snapshots(setup).start(), &MEDIAWIKI, "snapshot", requests(amount(4_000, 100_000)) / 10);
}
