//! A pool behind a web server: commands change its directory, and nodes read it by https.

use tests::tls::{Authority, both};
use tests::{Server, Setup, wait_until};

use tests::yard::{Node, Yard};

/// Reprise itself, as the web server of the pool's directory.
fn web(yard: &Yard, authority: &Authority) -> (Server, String) {
    authority.issue("pool", "DNS:localhost,IP:127.0.0.1", 30);
    let (setup, ports) = both(Setup::root(&yard.path("pool")), "", &authority.table("pool"));
    (setup.start(), format!("https://localhost:{}/", ports.https))
}

/// Nodes switch to what the directory says, each by itself, and go on without it; nobody writes by https.
#[test]
fn nodes_follow_a_pool_that_they_can_only_read() {
    let mut yard = Yard::new(None);
    yard.push_version("1");
    yard.activate_fine("latest");
    let authority = Authority::new(&yard.path("tls"));
    let (web, url) = web(&yard, &authority);
    let directory = std::mem::replace(&mut yard.pool, url.clone());
    let trusting = format!("release_ca = \"{}\"", authority.path("ca.pem"));
    let nodes: [Node; 2] = ["one", "two"].map(|name| yard.node(name, "", &trusting));
    let stranger = yard.node("stranger", "", "");
    for arguments in [
        &["activate", &url, "shop", "latest", "--key", &yard.key(), "--ca", &authority.path("ca.pem")][..],
        &["remove", &url, "shop", "1", "--ca", &authority.path("ca.pem")],
    ] {
        let (text, code) = yard.release(arguments);
        assert!(code != 0 && text.contains("https pool"), "{arguments:?}: {code} {text}");
    }
    yard.pool = directory;
    assert!(nodes.iter().all(|node| node.serves("1")), "what is served at the start");
    yard.push_version("2");
    let told = yard.activate_fine("latest");
    assert_eq!(told["members"], serde_json::json!([]), "nodes say nothing in such a pool");
    for version in ["2", "1"] {
        // They look every five seconds.
        wait_until("all serve it", 30, || nodes.iter().all(|node| node.serves(version)));
        if version == "2" {
            yard.rollback();
        }
    }
    assert_eq!(stranger.server.get("/").status, 503, "a server that no authority of the node knows");
    assert!(stranger.server.log().to_lowercase().contains("certificate"), "{}", stranger.server.log());
    drop(web);
    let tells = |node: &Node| node.server.log().contains("the pool");
    wait_until("the log says that the pool is gone", 30, || nodes.iter().all(tells));
    assert!(nodes.iter().all(|node| node.serves("1") && node.is_ready()));
}
