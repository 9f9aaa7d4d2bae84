//! Headers that the front derives: pages that depend on them are shared among those for whom they are the same.

use tests::Setup;

use super::{ask, is_hit};

const PAGE: &str = r#"<?php
header('Cache-Control: ' . ($_GET['cc'] ?? 'public, max-age=60'));
header('Vary: ' . $_GET['vary']);
echo json_encode(['device' => $_SERVER['HTTP_X_DEVICE'] ?? null, 'language' => $_SERVER['HTTP_X_LANGUAGE'] ?? null,
    'known' => $_SERVER['HTTP_X_KNOWN'] ?? null, 'country' => $_SERVER['HTTP_X_COUNTRY'] ?? null, 'group' => $_SERVER['HTTP_X_GROUP'] ?? null,
    'cookie' => $_SERVER['HTTP_COOKIE'] ?? null, 'run' => bin2hex(random_bytes(4))]);
"#;

const DERIVED: &str = r#"cache_memory = "16M"
derive.X-Device = "device"
derive.X-Language = "language: en, de"
derive.X-Known = "has cookie: session"
derive.X-Country = "cookie country: de, at"
derive.X-Group = "bucket: 4""#;

#[test]
fn pages_are_shared_by_what_is_derived() {
    let server = Setup::empty().file("index.php", PAGE).application(DERIVED).start();
    let languages = |accepted: &str| ask(&server, "/?vary=X-Language", &[("Accept-Language", accepted)]);
    let german = languages("de");
    assert!(german.text().contains("\"language\":\"de\"") && !is_hit(&german), "{}", german.text());
    for (accepted, is_german) in
        [("de-AT, en;q=0.5", true), ("DE", true), ("fr, de;q=0.1", true), ("en-GB", false), ("fr", false)]
    {
        assert_eq!(languages(accepted).text() == german.text(), is_german, "{accepted}");
    }
    assert!(is_hit(&languages("it")));
    // What the client says of them is dropped.
    let evil = ask(&server, "/?vary=X-Device", &[("X-Device", "evil"), ("User-Agent", "Mobi")]);
    assert!(evil.text().contains("\"device\":\"mobile\""), "{}", evil.text());
    // Other caches cannot tell the variants apart.
    assert_eq!((evil.header("vary"), evil.header("cache-control")), (None, Some("private, max-age=60")));
    let hit = ask(&server, "/?vary=X-Device", &[("User-Agent", "Mobi")]);
    assert!(is_hit(&hit));
    assert_eq!((hit.header("vary"), hit.header("cache-control")), (None, Some("private, max-age=60")));
    // A cookie that the header expresses is none that tells visitors apart; PHP does not see it when it makes a page for many.
    let austrian = ask(&server, "/?vary=X-Country&cc=s-maxage=60", &[("Cookie", "country=at")]);
    assert!(
        austrian.text().contains("\"country\":\"at\"") && austrian.text().contains("\"cookie\":null"),
        "{}",
        austrian.text()
    );
    assert!(is_hit(&ask(&server, "/?vary=X-Country&cc=s-maxage=60", &[("Cookie", "country=at")])));
    for cookie in ["country=de", "country=xx", ""] {
        assert_ne!(
            ask(&server, "/?vary=X-Country&cc=s-maxage=60", &[("Cookie", cookie)]).text(),
            austrian.text(),
            "{cookie}"
        );
    }
    assert!(!is_hit(&ask(&server, "/?vary=X-Country&cc=s-maxage=60", &[("Cookie", "country=at; session=1")])));
    // Who is known gets another page than who is not.
    let known = ask(&server, "/?vary=X-Known", &[("Cookie", "session=1")]);
    let unknown = ask(&server, "/?vary=X-Known", &[]);
    assert!(known.text().contains("\"known\":\"1\"") && unknown.text().contains("\"known\":\"0\""));
    assert_eq!(ask(&server, "/?vary=X-Known", &[("Cookie", "session=2")]).text(), known.text());
    assert!(["0", "1", "2", "3"].iter().any(|group| known.text().contains(&format!("\"group\":\"{group}\""))));
}
