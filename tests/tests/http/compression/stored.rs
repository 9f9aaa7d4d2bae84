//! Stored responses are compressed once, and stay what they are.

use tests::client::Client;
use tests::{Response, Server, wait_for, wait_until};

use super::{CODINGS, ask, coding_of, mark, page, plain, site, varies};

fn metric(server: &Server, port: u16, name: &str) -> u64 {
    let text = Client::new(port).get("/metrics").text();
    let found = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next()?.parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in {text}\n{}", server.log()))
}

#[test]
fn stored_responses_are_compressed_once() {
    let port = tests::server::free_port();
    let server =
        site().application("cache_memory = \"16M\"").server(&format!("admin_listen = [\"127.0.0.1:{port}\"]")).start();
    for (number, lines) in [30, 3000].into_iter().enumerate() {
        let whole = page(lines);
        let target = format!(
            "/?lines={lines}&etag=s{number}&h[]=Cache-Control:+public,max-age%3D600&h[]=Last-Modified:+Mon,+01+Jan+2024+00:00:00+GMT"
        );
        assert!(plain(&ask(&server, &target, &[("Accept-Encoding", "br")])) == whole);
        wait_until("the response is stored", 30, || {
            ask(&server, &target, &[]).header("cache-status").is_some_and(|status| status.contains("hit"))
        });
        for (of, coding) in CODINGS.into_iter().enumerate() {
            // A visitor's cookie makes no difference to what everybody gets.
            let headers = [("Accept-Encoding", coding), ("Cookie", "a=b")];
            let response = wait_for("the stored response is compressed", 30, || {
                let response = ask(&server, &target, &headers);
                assert!(plain(&response) == whole && varies(&response));
                (coding_of(&response) == coding).then_some(response)
            });
            assert!(response.header("cache-status").unwrap().contains("hit"));
            let tag = format!("W/\"s{number}\"");
            assert_eq!(response.header("etag"), Some(tag.as_str()));
            assert_eq!(response.header("content-length"), Some(response.body.len().to_string().as_str()));
            for _ in 0..5 {
                let again = ask(&server, &target, &headers);
                assert!(again.body == response.body && coding_of(&again) == coding);
            }
            let compressed = metric(&server, port, "reprise_cache_compressed_total");
            assert_eq!(compressed as usize, CODINGS.len() * number + of + 1, "{coding}");
            let head = server.client().request("HEAD", &target, &headers, b"");
            assert_eq!(head.header("content-length"), response.header("content-length"));
            assert_eq!(coding_of(&head), coding);
            let confirmed = ask(&server, &target, &[headers[0], ("If-None-Match", &tag)]);
            assert_eq!((confirmed.status, confirmed.header("etag")), (304, Some(tag.as_str())));
            assert!(varies(&confirmed));
        }
        // Parts are parts of what has no coding.
        let (range, gzip) = (("Range", "bytes=5-9"), ("Accept-Encoding", "gzip"));
        let part = ask(&server, &target, &[gzip, range]);
        assert_eq!((part.status, &part.body[..], coding_of(&part)), (206, &whole[5..10], "none"));
        let strong = format!("\"s{number}\"");
        let part = ask(&server, &target, &[gzip, range, ("If-Range", &strong)]);
        assert_eq!((part.status, &part.body[..]), (206, &whole[5..10]));
        for condition in [format!("W/{strong}"), "Mon, 01 Jan 2024 00:00:00 GMT".to_owned()] {
            let response = ask(&server, &target, &[gzip, range, ("If-Range", &condition)]);
            assert!(response.status == 200 && plain(&response) == whole, "{condition}");
        }
        let (told, code) = server.reprise(&["cache", "explain", &format!("http://127.0.0.1:{}{target}", server.port)]);
        assert!(
            code == 0 && CODINGS.iter().all(|coding| told.contains(&format!("compressed by {coding}: "))),
            "{told}"
        );
    }
    assert!(metric(&server, port, "reprise_cache_bytes") > page(3000).len() as u64);
}

#[test]
fn what_is_renewed_keeps_its_compressed_bodies() {
    let port = tests::server::free_port();
    let server =
        site().application("cache_memory = \"16M\"").server(&format!("admin_listen = [\"127.0.0.1:{port}\"]")).start();
    let target = "/?lines=30&etag=r&h[]=Cache-Control:+public,max-age%3D600,stale-while-revalidate%3D600";
    let is_fresh = |response: &Response| {
        let status = response.header("cache-status").unwrap_or("");
        status.contains("hit; ttl=") && !status.contains("ttl=-")
    };
    let ask_gzip = || {
        let response = ask(&server, target, &[("Accept-Encoding", "gzip")]);
        assert!(plain(&response) == page(30) && coding_of(&response) == "gzip");
        response
    };
    let runs = || metric(&server, port, "reprise_requests_total");
    let compressed = || metric(&server, port, "reprise_cache_compressed_total");
    ask_gzip();
    wait_until("it is stored", 30, || is_fresh(&ask_gzip()));
    let (before, bytes) = (runs(), metric(&server, port, "reprise_cache_bytes"));
    assert_eq!(compressed(), 1);
    // PHP confirms it.
    assert_eq!(server.reprise(&["purge", "--soft", "--all"]).1, 0);
    ask_gzip();
    wait_until("it is renewed", 30, || runs() > before && is_fresh(&ask_gzip()));
    assert_eq!(compressed(), 1);
    // It is gone, and what is made anew takes its place.
    for number in 2..5 {
        assert_eq!(server.reprise(&["purge", "--all"]).1, 0);
        ask_gzip();
        wait_until("it is stored", 30, || is_fresh(&ask_gzip()));
        assert_eq!(compressed(), number);
        let now = metric(&server, port, "reprise_cache_bytes");
        assert!(now < bytes + 500, "{now} bytes, {bytes} before: old ones are left");
    }
}

#[test]
fn a_crowd_gets_the_page_in_all_codings() {
    let server = site().application("cache_memory = \"16M\"").start();
    let whole = page(2000);
    let target = "/?lines=2000&flush=50000&h[]=Cache-Control:+s-maxage%3D600";
    let asked: Vec<_> = (0..30)
        .map(|number| {
            let (mut client, coding) = (server.client(), CODINGS[number % 3]);
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n");
            client.send(head.as_bytes()).unwrap();
            (client, coding)
        })
        .collect();
    // PHP waits, so all of them get the one response that is on its way.
    let begun: Vec<_> = asked
        .into_iter()
        .map(|(mut client, coding)| {
            let head = client.read_head().unwrap();
            assert_eq!(coding_of(&head), coding);
            (client, head)
        })
        .collect();
    mark(&server, "go");
    for (mut client, mut response) in begun {
        client.read_body(&mut response, false).unwrap();
        assert!(plain(&response) == whole);
    }
}

#[test]
fn what_is_stored_with_a_coding_is_left_alone() {
    let server = site().application("cache_memory = \"16M\"").start();
    let target = "/?h[]=Content-Encoding:+br&h[]=Vary:+Accept-Encoding&h[]=Cache-Control:+public,max-age%3D600";
    for _ in 0..3 {
        let response = ask(&server, target, &[("Accept-Encoding", "br, gzip")]);
        assert_eq!((response.all("content-encoding"), response.all("vary")), (vec!["br"], vec!["Accept-Encoding"]));
        assert!(response.body == page(200));
    }
}
