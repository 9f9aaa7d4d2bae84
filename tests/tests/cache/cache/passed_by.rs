//! `reprise verify` passes by the cache with a token of the control socket. A header without the token is none.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tests::{Server, Setup, wait_until};

use super::{PUBLIC, ask, is_hit, runs_of, site};

/// What PHP sees of a request, wherever it looks; kept for a minute.
const SEEN: &str = r#"<?php
header('Cache-Control: public, max-age=60');
echo bin2hex(random_bytes(8)), ' ', json_encode([$_SERVER, getallheaders(), getenv(), $_ENV]);
"#;

/// A page that is kept, and what was made for it.
fn kept(server: &Server) -> (String, String) {
    let target = format!("/page?{PUBLIC}");
    let made = ask(server, &target, &[]).text();
    assert!(is_hit(&ask(server, &target, &[])));
    (target, made)
}

/// Whether a request with this header gets what is kept.
fn gets_kept(server: &Server, header: &str, kept: &(String, String)) -> bool {
    let page = ask(server, &kept.0, &[("Reprise-Mode", header)]);
    if is_hit(&page) {
        assert!(page.text() == kept.1 && page.header("reprise-mode").is_none());
        return true;
    }
    assert!(page.text() != kept.1 && page.header("cache-status").is_none());
    assert_eq!(page.header("reprise-mode"), Some("classic"));
    false
}

/// From this machine a header is nothing without the token, and nothing with a wrong one; with the token PHP makes the page, which is not kept.
#[test]
fn only_the_token_passes_by() {
    let server = site(2).start();
    let page = kept(&server);
    // Before anybody has asked for a token there is none.
    for header in ["classic", "own", "", "classic ", "classic 0", "classic null"] {
        assert!(gets_kept(&server, header, &page), "{header:?}");
    }
    let token = server.token();
    assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    assert_eq!(server.token(), token);
    let last = if token.ends_with('0') { "1" } else { "0" };
    for header in [
        "classic".to_owned(),
        "own".to_owned(),
        token.clone(),
        format!("own {}{last}", &token[..63]),
        format!("own {}", &token[..63]),
        format!("own {token}{last}"),
        format!("own {}", "0".repeat(64)),
        format!("mine {token}"),
    ] {
        assert!(gets_kept(&server, &header, &page), "{header:?}");
    }
    let before = runs_of(&server, "/page");
    assert!(
        !gets_kept(&server, &format!("own {token}"), &page) && !gets_kept(&server, &format!("classic {token}"), &page)
    );
    assert_eq!(runs_of(&server, "/page"), before + 2);
    // The kept page stays as it was, and whoever comes through a proxy gets it.
    assert_eq!(ask(&server, &page.0, &[]).text(), page.1);
    let own = format!("own {token}");
    for name in ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"] {
        assert!(is_hit(&ask(&server, &page.0, &[("Reprise-Mode", &own), (name, "127.0.0.1")])), "{name}");
    }
    let twice = ask(&server, &page.0, &[("Reprise-Mode", &own), ("Reprise-Mode", &own)]);
    assert!(is_hit(&twice));
}

/// The token is the front's: a front that is started anew has another one.
#[test]
fn a_token_ends_with_its_front() {
    let server = site(1).start();
    let (token, front) = (server.token(), server.front().unwrap());
    kill(Pid::from_raw(front), Signal::SIGKILL).unwrap();
    wait_until("another front", 30, || server.front().is_some_and(|pid| pid != front));
    wait_until("it serves", 30, || {
        server.client().try_request("GET", "/", &[], b"").is_ok_and(|page| page.status == 200)
    });
    let page = kept(&server);
    assert!(gets_kept(&server, &format!("own {token}"), &page));
    let now = server.token();
    assert!(now != token && gets_kept(&server, &format!("own {token}"), &page));
    assert!(!gets_kept(&server, &format!("own {now}"), &page));
}

/// PHP sees neither header nor token, whether it is right, wrong or missing; nor does the page that is kept.
#[test]
fn php_never_sees_it() {
    let server = Setup::empty().file("index.php", SEEN).application("cache_memory = \"16M\"").start();
    let token = server.token();
    for (number, value) in
        [format!("own {token}"), format!("classic {token}"), "own wrong".to_owned()].iter().enumerate()
    {
        for (way, name) in ["Reprise-Mode", "reprise-mode", "REPRISE-MODE", "Reprise_Mode"].iter().enumerate() {
            let text = ask(&server, &format!("/{number}/{way}"), &[(name, value)]).text();
            assert!(text.contains("REQUEST_URI") && !text.contains(&token), "{text}");
            let lower = text.to_ascii_lowercase();
            assert!(["reprise_mode", "reprise-mode", "wrong"].iter().all(|word| !lower.contains(word)), "{text}");
        }
    }
}

/// The holes of a page are made anew too.
#[test]
fn holes_pass_by_with_their_page() {
    let page = r#"<?php
        if ($_SERVER['REQUEST_URI'] === '/hole') { header('Cache-Control: public, max-age=60'); echo bin2hex(random_bytes(8)); exit; }
        header('Surrogate-Control: content="ESI/1.0"'); echo '<esi:include src="/hole"/>';"#;
    let server = Setup::empty().file("index.php", page).application("cache_memory = \"16M\"\nesi = true").start();
    let kept = ask(&server, "/", &[]).text();
    assert!(kept.len() == 16 && ask(&server, "/", &[]).text() == kept);
    assert_eq!(ask(&server, "/", &[("Reprise-Mode", "own")]).text(), kept);
    let anew = ask(&server, "/", &[("Reprise-Mode", &format!("own {}", server.token()))]).text();
    assert!(anew.len() == 16 && anew != kept);
    assert_eq!(ask(&server, "/", &[]).text(), kept);
}

/// What it changes is made anew for everybody else.
#[test]
fn what_it_changes_is_not_kept() {
    let server = site(2).start();
    let page = kept(&server);
    let own = format!("own {}", server.token());
    server.client().request("POST", &page.0, &[("Reprise-Mode", &own)], b"");
    assert!(!is_hit(&ask(&server, &page.0, &[])));
}

/// `reprise verify` compares what PHP makes, also of a page that is kept.
#[test]
fn verify_compares_what_is_made() {
    let page = "<?php file_put_contents('@runs@/log', $_SERVER['REQUEST_URI'] . \"\\n\", FILE_APPEND | LOCK_EX); reprise_snapshot();
        file_put_contents('@runs@/log', $_SERVER['REQUEST_URI'] . \"\\n\", FILE_APPEND | LOCK_EX); header('Cache-Control: public, max-age=60'); echo 'a page';";
    let setup = Setup::empty();
    let page = page.replace("@runs@", &setup.writable("runs"));
    let server = setup.file("index.php", page).application("cache_memory = \"16M\"").start();
    let target = "/kept";
    ask(&server, target, &[]);
    assert!(is_hit(&ask(&server, target, &[])));
    let before = runs_of(&server, target);
    let url = format!("http://127.0.0.1:{}{target}", server.port);
    let (text, code) = server.reprise(&["verify", "--rounds", "2", &url]);
    assert_eq!(code, 0, "{text}");
    // Two visitors with two sessions in two modes ask twice; in classic mode the line before the call runs too.
    assert_eq!(runs_of(&server, target) - before, 8 + 2 * 8, "{text}");
}
