//! Many visitors at once, with the cache on: some known to the application, some with a cart, in three languages, over purges and reloads. Each page
//! says for whom it was made, and no visitor gets one that is not for him. `./test --full` makes 100,000 requests of each application.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;

use tests::bridged::{
    HOST, LARAVEL_WARM, RUNTIME, SYMFONY_WARM, add_authors, bridged, build_bridged, build_wordpress, served_in,
};
use tests::compare::{Visitor, between};
use tests::server::project;
use tests::snapshot::{is_sanitized, requests};
use tests::{Response, Server, Setup, amount};

use super::of_frameworks::{build_laravel, log_in_to_laravel, log_in_to_symfony};
use super::{is_hit, of_wordpress};

/// Users of all three applications.
const USERS: [&str; 2] = ["annak8vq3lxt7wzr2m5p", "bertd4hj9syc6nfg1uxe"];
/// Visitors. Each has its name in a cookie, but those that were never here.
const NAMES: [&str; 16] = [
    "gucafe0", "gucafe1", "gucafe2", "gucafe3", "gucafe4", "gucafe5", "gucafe6", "gucafe7", "gucafe8", "gucafe9",
    "gudeed0", "gudeed1", "gudeed2", "gudeed3", "gudeed4", "gudeed5",
];
const LANGUAGES: [&str; 3] = ["en", "de", "fr"];
/// Pages for many.
const PAGES: usize = 12;

/// WordPress' pages say for whom they are; a page differs by language, and by the cart, whose cookie is one of those that the plugin names.
const SAYS: &str = r"<?php
add_action('template_redirect', function () { header('Vary: Accept-Language', false); });
add_action('wp_footer', function () {
    $user = wp_get_current_user()->user_login ?: 'nobody';
    $language = substr($_SERVER['HTTP_ACCEPT_LANGUAGE'] ?? 'en', 0, 2);
    $cart = $_COOKIE['woocommerce_cart_hash'] ?? 'none';
    echo '[[user=', $user, ' lang=', $language, ' cart=', $cart, ' page=', get_post_field('post_name'), ']]';
});
";

/// Where an application has its pages, and how it knows visitors.
struct Site {
    page: fn(usize) -> String,
    name: fn(usize) -> String,
    own: fn(&str) -> String,
    cart: &'static str,
    /// Whether pages for many may be a user's own.
    shows_user: bool,
    log_in: fn(&mut Visitor, &str),
}

const WORDPRESS: Site = Site {
    page: |number| format!("/post-{}/", number + 1),
    name: |number| format!("post-{}", number + 1),
    own: |own| format!("/?mark=page&q={own}"),
    cart: "woocommerce_cart_hash",
    shows_user: true,
    log_in: of_wordpress::log_in,
};

const SYMFONY: Site = Site {
    page: |number| format!("/shared/{}/{number}", if number % 2 == 0 { "user" } else { "open" }),
    name: |number| number.to_string(),
    own: |own| format!("/mark/page?q={own}"),
    cart: "cart",
    shows_user: false,
    log_in: |visitor, name| assert_eq!(log_in_to_symfony(visitor, name).status, 302),
};

const LARAVEL: Site = Site {
    page: |number| format!("/shared/open/{number}"),
    name: |number| number.to_string(),
    own: |own| format!("/mark/page?q={own}"),
    cart: "cart",
    shows_user: false,
    log_in: |visitor, name| assert_eq!(log_in_to_laravel(visitor, name).status, 302),
};

struct Guest<'a> {
    site: &'a Site,
    server: &'a Server,
    visitor: Visitor,
    number: usize,
    user: &'static str,
    cart: String,
    language: &'static str,
    hits: usize,
}

impl<'a> Guest<'a> {
    fn new(site: &'a Site, server: &'a Server, number: usize) -> Guest<'a> {
        let mut visitor = Visitor::marked(server.port, HOST, NAMES[number]);
        // Half are users; of the others half have no cookie at all, or only that of a cart.
        let user = if number % 2 == 0 { USERS[number / 2 % 2] } else { "nobody" };
        if user == "nobody" && number % 4 == 1 {
            visitor.mark = None;
        } else if user != "nobody" {
            (site.log_in)(&mut visitor, user);
        }
        let cart = if number % 3 == 0 { format!("cart{number}") } else { "none".to_owned() };
        if cart != "none" {
            visitor.cookies.insert(site.cart.to_owned(), cart.clone());
        }
        Guest { site, server, visitor, number, user, cart, language: LANGUAGES[number / 2 % 3], hits: 0 }
    }

    fn visit(&mut self, visits: Range<usize>) -> Result<(), String> {
        for number in visits {
            if self.number == 1 {
                self.disturb(number);
            }
            match self.visitor.mark {
                Some(mark) if number % 5 == 4 => self.visit_own(mark, number)?,
                _ => self.visit_shared((number * 7 + self.number) % PAGES)?,
            }
        }
        Ok(())
    }

    /// Purges and reloads, in the midst of the others.
    fn disturb(&self, number: usize) {
        let url = (self.site.page)(number % PAGES);
        let words: &[&str] = match number % 40 {
            9 => &["purge", "--url", &url],
            19 => &["purge", "--all", "--soft"],
            29 => &["purge", "--all"],
            39 => &["purge", "--prefix", &url[..url.len() - 1], "--soft"],
            30 if number % 400 == 30 => &["reload"],
            _ => return,
        };
        let (said, code) = self.server.reprise(words);
        assert_eq!(code, 0, "{words:?}: {said}");
    }

    /// A page for many, or, where the application knows the visitor, his own.
    fn visit_shared(&mut self, number: usize) -> Result<(), String> {
        let page = self.visitor.request("GET", &(self.site.page)(number), &[("Accept-Language", self.language)], b"");
        self.hits += usize::from(is_hit(&page));
        let text = page.text();
        if page.status != 200 || !text.contains("[[") {
            return Err(format!("{} for {}: {text}", page.status, NAMES[self.number]));
        }
        let said = between(&text, "[[", "]]");
        // What Symfony's page says of the user it says only if it asks for him.
        let asks = self.site.shows_user || (self.site.page)(number).contains("/user/");
        let user = if asks { self.user } else { "nobody" };
        let name = (self.site.name)(number);
        let meant = format!("user={user} lang={} cart={} page={name}", self.language, self.cart);
        if said != meant {
            return Err(format!("{meant:?} gets {said:?} {:?}", page.header("cache-status")));
        }
        // Nothing else of a user, as in the admin bar.
        let foreign = USERS.iter().find(|other| **other != self.user && text.contains(**other));
        foreign.map_or(Ok(()), |other| Err(format!("{meant:?} sees {other}: {text}")))
    }

    /// A page that is the visitor's own.
    fn visit_own(&mut self, mark: &str, number: usize) -> Result<(), String> {
        let own = format!("{mark}-{number}");
        let page: Response = self.visitor.get(&(self.site.own)(&own));
        let text = page.text();
        let shown =
            [format!("\"user\":\"{}\"", self.user), format!("\"get\":\"{own}\""), format!("\"session\":\"{mark}\"")];
        match shown.iter().find(|part| !text.contains(*part)) {
            _ if page.status != 200 || is_hit(&page) => Err(format!("{own}: {} {:?}", page.status, page.headers)),
            Some(part) => Err(format!("{own} does not show {part}: {text}")),
            None => Ok(()),
        }
    }
}

/// So many requests of all visitors at once. How many were answered by the cache, or the first page that is wrong.
fn visit(server: &Server, site: &Site, total: usize) -> Result<usize, String> {
    let mut guests: Vec<Guest> = (0..NAMES.len()).map(|number| Guest::new(site, server, number)).collect();
    let each = total / guests.len();
    let start = Barrier::new(guests.len());
    std::thread::scope(|scope| {
        let visits: Vec<_> = guests
            .iter_mut()
            .map(|guest| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    guest.visitor.reconnect();
                    guest.visit(0..each)
                })
            })
            .collect();
        visits.into_iter().try_for_each(|visit| visit.join().expect("a visitor"))
    })?;
    Ok(guests.iter().map(|guest| guest.hits).sum())
}

fn total(usual: usize) -> usize {
    if is_sanitized() { 320 } else { requests(amount(usual, 10_000)) }
}

fn report(name: &str, server: &Server, site: &Site, usual: usize) {
    let total = total(usual);
    // Others come after them: in the full run they are 1,008.
    let crowds = amount(1, 1_000usize.div_ceil(NAMES.len()));
    let visit = || visit(server, site, total / crowds).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    let hits: usize = (0..crowds).map(|_| visit()).sum();
    println!("{name}: {total} requests, {hits} from the cache");
    assert!(hits > total / 20, "{name}: {hits} of {total} from the cache");
}

fn with_bridge(name: &str, site: &Site, warm_up: &str, mode: &str, root: &Path) {
    let server = bridged(root, mode, warm_up).env("APP_RUNTIME", RUNTIME).application("cache_memory = \"16M\"").start();
    report(&format!("{name}, {mode}"), &server, site, 504);
    if mode != "classic" {
        served_in(&server, mode);
    }
}

/// No page of Symfony that was made for others reaches a visitor for whom it is not.
#[test]
fn symfony_s_visitors_get_what_is_for_them() {
    let (_place, application) = build_bridged("symfony");
    for mode in &["snapshot", "worker", "classic"][..amount(1, 3)] {
        with_bridge("symfony", &SYMFONY, SYMFONY_WARM, mode, &application.join("public"));
    }
}

/// No page of Laravel that was made for others reaches a visitor for whom it is not.
#[test]
fn laravel_s_visitors_get_what_is_for_them() {
    let (_place, application) = build_laravel();
    for mode in &["snapshot", "worker", "classic"][..amount(1, 3)] {
        with_bridge("laravel", &LARAVEL, LARAVEL_WARM, mode, &application.join("public"));
    }
}

fn wordpress(root: &Path, mode: &str, says: &str) -> Server {
    let plugins = root.join("wp-content/mu-plugins");
    fs::copy(project().join("tests/apps/wordpress/mark.php"), plugins.join("mark.php")).expect("a plugin");
    fs::write(plugins.join("says.php"), says).expect("a plugin");
    Setup::root(root).application(&format!("mode.\"index.php\" = \"{mode}\"\ncache_memory = \"32M\"")).start()
}

/// No page of WordPress that was made for others reaches a visitor for whom it is not. If a plugin takes the names of cookies away, the visitors say so.
#[test]
fn wordpress_s_visitors_get_what_is_for_them() {
    let (_database, _place, application) = build_wordpress();
    add_authors(USERS, &application);
    let root = application.join("htdocs");
    for mode in &["snapshot", "classic"][..amount(1, 2)] {
        // One of its pages takes as long as twenty of the others'.
        report(&format!("wordpress, {mode}"), &wordpress(&root, mode, SAYS), &WORDPRESS, 240);
    }
    let careless = format!("{SAYS}add_filter('reprise_cache_cookies', fn () => ['nothing']);\n");
    let seen = visit(&wordpress(&root, "snapshot", &careless), &WORDPRESS, 120).expect_err("pages of others");
    assert!(seen.contains(" gets "), "{seen}");
}
