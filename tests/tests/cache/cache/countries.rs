//! The derived header of a country: by a cookie or by the address that the front has verified; files with the countries of addresses, good and bad.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tests::maxmind_file::{Kind, write};
use tests::server::{Directory, free_port, program};
use tests::{Client, Server, Setup, process, wait_for};

use super::{ask, is_hit};

const PAGE: &str = r#"<?php
header('Cache-Control: ' . ($_GET['cc'] ?? 'public, max-age=60'));
header('Vary: X-GeoIP-Country');
echo json_encode(['country' => $_SERVER['HTTP_X_GEOIP_COUNTRY'] ?? null, 'cookie' => $_SERVER['HTTP_COOKIE'] ?? null, 'run' => bin2hex(random_bytes(8))]);
"#;

const NETWORKS: [(&str, &str); 5] = [
    ("192.0.2.0/24", "DE"),
    ("198.51.100.0/24", "FR"),
    ("203.0.113.0/24", "US"),
    ("2001:db8::/32", "CH"),
    ("127.0.0.0/8", "AT"),
];

fn countries() -> Vec<u8> {
    write(Kind::V6WithAliases, 28, &NETWORKS)
}

/// A site with that derived header; `@` is the file. This machine is a proxy, so tests say which address asks.
fn site(derived: &str, file: &[u8]) -> Setup {
    let setup = Setup::empty().file("index.php", PAGE);
    let path = setup.directory().join("countries.mmdb");
    fs::write(&path, file).unwrap();
    let derived = derived.replace('@', path.to_str().unwrap());
    setup
        .server("proxies = [\"127.0.0.1\"]")
        .application("cache_memory = \"16M\"")
        .application(&format!("derive.X-GeoIP-Country = {derived}"))
}

const GROUPS: &str =
    r#"{ file = "@", cookie = "country", groups = { EU = ["DE", "FR", "AT"], CH = ["CH"] }, default = "rest" }"#;

fn country(server: &Server, headers: &[(&str, &str)]) -> String {
    let text = ask(server, "/", headers).text();
    let (_, rest) = text.split_once("\"country\":").expect("a country");
    rest.split(',').next().unwrap_or_default().trim_matches('"').to_owned()
}

fn from(address: &str) -> [(&'static str, &str); 1] {
    [("X-Forwarded-For", address)]
}

#[test]
fn pages_are_shared_by_group_of_countries() {
    let server = site(GROUPS, &countries()).start();
    let german = ask(&server, "/", &from("192.0.2.1"));
    assert!(german.text().contains("\"country\":\"EU\"") && !is_hit(&german), "{}", german.text());
    let french = ask(&server, "/", &from("198.51.100.77"));
    assert!(is_hit(&french) && french.text() == german.text(), "{}", french.text());
    // Other caches cannot tell the variants apart.
    for response in [&german, &french] {
        assert_eq!((response.header("vary"), response.header("cache-control")), (None, Some("private, max-age=60")));
    }
    let swiss = ask(&server, "/", &from("2001:db8::1"));
    assert!(swiss.text().contains("\"country\":\"CH\"") && !is_hit(&swiss), "{}", swiss.text());
    for (address, meant) in
        [("203.0.113.9", "rest"), ("8.8.8.8", "rest"), ("2001:db9::1", "rest"), ("::ffff:192.0.2.9", "EU")]
    {
        assert_eq!(country(&server, &from(address)), meant, "{address}");
    }
}

#[test]
fn a_client_s_own_header_and_address_do_not_count() {
    let server = site(GROUPS, &countries()).start();
    for forged in ["US", "CH", "EU, CH"] {
        let headers = [("X-Forwarded-For", "203.0.113.9"), ("X-GeoIP-Country", forged), ("X-GEOIP-COUNTRY", "CH")];
        assert_eq!(country(&server, &headers), "rest", "{forged}");
    }
    // What a client writes stands before what the proxy appends.
    assert_eq!(country(&server, &from("2001:db8::1, 203.0.113.9")), "rest");
    // Nobody has declared a proxy: the address is that of the connection.
    server.reconfigure("proxies = [\"127.0.0.1\"]", "");
    assert!(server.reload().0);
    for header in
        ["X-Forwarded-For", "X-Real-IP", "Client-IP", "CF-Connecting-IP", "Forwarded", "CF-IPCountry", "GeoIP-Country"]
    {
        for value in ["2001:db8::1", "for=\"[2001:db8::1]\"", "CH"] {
            assert_eq!(country(&server, &[(header, value)]), "EU", "{header}: {value}");
        }
    }
    let (text, _) = server.reprise(&["cache", "explain", &format!("http://127.0.0.1:{}/", server.port)]);
    assert!(text.contains("for requests with x-geoip-country: EU\n"), "{text}");
}

#[test]
fn a_cookie_comes_first_if_it_is_a_declared_country() {
    let server = site(GROUPS, &countries()).start();
    for (cookie, address, meant) in [
        ("country=CH", "192.0.2.1", "CH"),
        ("a=1; country=de; b=2", "203.0.113.9", "EU"),
        // Not declared, no code, a group, nothing, twice, encoded: the address counts.
        ("country=US", "192.0.2.1", "EU"),
        ("country=EU", "203.0.113.9", "rest"),
        ("country=", "192.0.2.1", "EU"),
        ("country=CHE", "192.0.2.1", "EU"),
        ("country=\"CH\"", "192.0.2.1", "EU"),
        ("country=C%48", "192.0.2.1", "EU"),
        ("country=XX; country=CH", "192.0.2.1", "EU"),
        ("country=CH%0d%0aX-Evil:1", "203.0.113.9", "rest"),
        ("COUNTRY=CH", "192.0.2.1", "EU"),
    ] {
        assert_eq!(country(&server, &[("X-Forwarded-For", address), ("Cookie", cookie)]), meant, "{cookie}");
    }
    // Such a cookie does not keep a page from being shared, and PHP does not see it then; another one does.
    let page = |cookie| ask(&server, "/?cc=s-maxage=60", &[("X-Forwarded-For", "192.0.2.1"), ("Cookie", cookie)]);
    let first = page("country=CH");
    assert!(
        first.text().contains("\"country\":\"CH\"") && first.text().contains("\"cookie\":null"),
        "{}",
        first.text()
    );
    assert!(is_hit(&page("country=ch")));
    assert_ne!(page("country=nonsense").text(), first.text());
    assert!(!is_hit(&page("country=CH; session=1")));
}

#[test]
fn without_groups_the_value_is_the_country() {
    let metrics = free_port();
    let setup = site(r#"{ file = "@", cookie = "country", countries = ["DE", "CH"] }"#, &countries());
    let server = setup.server(&format!("admin_listen = [\"127.0.0.1:{metrics}\"]")).start();
    for (address, meant) in
        [("192.0.2.1", "DE"), ("198.51.100.1", "other"), ("2001:db8::1", "CH"), ("192.0.3.1", "other")]
    {
        assert_eq!(country(&server, &from(address)), meant, "{address}");
    }
    assert_eq!(country(&server, &[("Cookie", "country=CH")]), "CH");
    let text = Client::new(metrics).get("/metrics").text();
    for (by, count) in [("cookie", 1), ("address", 2), ("undeclared", 1), ("unknown", 1)] {
        assert!(text.contains(&format!("reprise_derived_countries_total{{by=\"{by}\"}} {count}\n")), "{by}: {text}");
    }
}

#[test]
fn a_reload_takes_a_replaced_file_and_refuses_a_bad_one() {
    let reset = "<?php if (!isset($_GET['look'])) opcache_reset(); echo reprise_info()['generation'];";
    let setup = site(r#"{ file = "@", countries = ["DE", "SE"] }"#, &countries()).file("reset.php", reset);
    let server = setup.start();
    let path = server.directory().join("countries.mmdb");
    assert_eq!(country(&server, &from("192.0.2.1")), "DE");
    // What happens to the file while it is not read happens to nobody.
    fs::write(&path, b"").unwrap();
    assert_eq!(country(&server, &from("192.0.2.1")), "DE");
    // Another front gets what the plan came with.
    let front = server.front().expect("a front");
    process::kill(front, Signal::SIGKILL);
    wait_for("another front", 30, || server.front().filter(|pid| *pid != front));
    assert_eq!(country(&server, &from("192.0.2.1")), "DE");
    // So does one with new generations alone, for which nothing is read.
    let generation = server.get("/reset.php").text();
    wait_for("another generation", 30, || (server.get("/reset.php?look").text() != generation).then_some(()));
    assert_eq!(country(&server, &from("192.0.2.1")), "DE");
    let whole = countries();
    let mut circle = whole.clone();
    circle[..7].fill(0);
    let nodes = whole.len() / 7 * 7;
    let replaced = [&whole[..nodes / 2], &write(Kind::V4, 24, &[("10.0.0.0/8", "SE")])[..]].concat();
    for (what, bad) in [
        ("empty", Vec::new()),
        ("truncated", whole[..whole.len() - 9].to_vec()),
        ("text", b"<html>".to_vec()),
        ("a circle", circle),
        ("replaced while it was written", replaced),
        ("without countries", write(Kind::V4, 24, &[("10.0.0.0/8", "")])),
    ] {
        fs::write(&path, bad).unwrap();
        let (is_fine, said) = server.reload();
        assert!(!is_fine, "{what}: {said}");
        for word in ["reprise.toml:", "derive.x-geoip-country", "countries.mmdb", "hint: download it again"] {
            assert!(
                said.contains(word) || server.log().contains(word),
                "{what}: no {word} in {said}\n{}",
                server.log()
            );
        }
        assert_eq!(country(&server, &from("192.0.2.1")), "DE", "{what}");
    }
    fs::remove_file(&path).unwrap();
    assert!(!server.reload().0);
    let beside = path.with_extension("new");
    fs::write(&beside, write(Kind::V4, 32, &[("192.0.2.0/24", "SE")])).unwrap();
    fs::rename(&beside, &path).unwrap();
    let (is_fine, said) = server.reload();
    assert!(is_fine, "{said}");
    // The reload has made pages stale: the first visitor gets the old one for the last time, but not of another country.
    wait_for("the new file", 10, || (country(&server, &from("192.0.2.1")) == "SE").then_some(()));
}

#[test]
fn a_bad_file_is_named_before_anything_starts() {
    type Make<'m> = &'m dyn Fn(&PathBuf);
    let check = |file: Make<'_>, derived: &str| {
        let directory = Directory::new();
        fs::create_dir_all(directory.0.join("www")).unwrap();
        let path = directory.0.join("c.mmdb");
        file(&path);
        let config = directory.0.join("r.toml");
        fs::write(&config, format!("[[application]]\nroot = \"www\"\nderive.X-GeoIP-Country = {derived}\n")).unwrap();
        let output = Command::new(program()).args(["check", "--config"]).arg(&config).output().expect("reprise check");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let derived = r#"{ file = "c.mmdb", countries = ["DE"] }"#;
    assert_eq!(check(&|path| fs::write(path, countries()).unwrap(), derived), (Some(0), String::new()));
    let pipe = |path: &PathBuf| mkfifo(path, Mode::S_IRUSR).unwrap();
    let large = |path: &PathBuf| fs::File::create(path).unwrap().set_len((128 << 20) + 1).unwrap();
    let files: [(Make<'_>, &str); 5] = [
        (&|_| {}, "No such file"),
        (&pipe, "regular"),
        (&|path| fs::create_dir(path).unwrap(), "regular"),
        (&large, "larger than 128 MiB"),
        (&|path| fs::write(path, &countries()[..200]).unwrap(), "damaged"),
    ];
    for (file, why) in files {
        let (code, said) = check(file, derived);
        assert_ne!(code, Some(0), "{why}");
        assert!(said.contains("r.toml:3: derive.x-geoip-country: ") && said.contains(why), "{why}: {said}");
    }
    for (derived, why) in [
        (r#"{ countries = ["DE"] }"#, "takes a file or a cookie"),
        (r#"{ cookie = "c" }"#, "either countries or groups"),
        (r#"{ cookie = "c", countries = ["DE"], groups = { EU = ["DE"] } }"#, "either countries or groups"),
        (r#"{ cookie = "c*", countries = ["DE"] }"#, "no name of a cookie"),
        (r#"{ cookie = "c", countries = ["UK"] }"#, "'UK' is no country"),
        (r#"{ cookie = "c", countries = ["de"] }"#, "'de' is no country"),
        (r#"{ cookie = "c", countries = [] }"#, "'countries' is empty"),
        (r#"{ cookie = "c", groups = {} }"#, "'groups' is empty"),
        (r#"{ cookie = "c", groups = { "E U" = ["DE"] } }"#, "cannot be a group"),
        (r#"{ cookie = "c", groups = { A = ["DE"], B = ["DE"] } }"#, "'DE' is in the group"),
        (r#"{ cookie = "c", countries = ["DE"], default = "a,b" }"#, "cannot be the value"),
        (r#"{ cookie = "c", countries = ["DE"], other = 1 }"#, "has no 'other'"),
        (r#"{ cookie = "c", groups = ["DE"] }"#, "takes a table of lists"),
        ("1", "takes a text, or a table"),
    ] {
        let (code, said) = check(&|_| {}, derived);
        assert!(code == Some(78) && said.contains(why) && said.contains("r.toml:3"), "{derived}: {code:?} {said}");
    }
}
