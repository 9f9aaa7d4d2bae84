//! A phar in a release.

use tests::yard::Yard;

/// A release whose root is in a phar: it is served, switched and gone back to as any other.
#[test]
fn a_release_may_have_a_phar_in_it() {
    let yard = Yard::new(None);
    let push = |version: &str| {
        let tree = yard.path(&format!("tree-{version}"));
        std::fs::create_dir_all(&tree).expect("a directory");
        let index = format!("<?php echo '{version} ', require __DIR__ . '/../src/code.php', ' ', __DIR__;");
        let files = [
            ("public/index.php", index.as_str()),
            ("src/code.php", &format!("<?php return '{version}';")),
            ("public/a.txt", version),
            (&format!("public/app.{version}f2a9c1b.css"), version),
        ];
        super::phar(&tree.join("app.phar"), &files, super::STUB);
        yard.push(&tree, &["--no-compile"]);
    };
    push("1");
    push("2");
    let node = yard.node_at("one", "app.phar/public");
    yard.await_nodes(1);
    assert_eq!(node.server.get("/").status, 503, "there is no release yet");
    let serves = |version: &str| {
        let page = node.server.get("/").text();
        let place = page.strip_prefix(&format!("{version} {version} phar://"));
        let is_there =
            place.is_some_and(|place| place.contains("/releases/shop/") && place.ends_with("/app.phar/public"));
        assert!(is_there, "{version}: {page}\n{}", node.server.log());
        assert_eq!(node.server.get("/a.txt").text(), version);
    };
    yard.activate_fine("1");
    serves("1");
    yard.activate_fine("2");
    serves("2");
    assert_eq!(node.server.get("/app.1f2a9c1b.css").text(), "1", "pages of the old release name it");
    yard.fine(&["rollback", &yard.pool, "shop", "--key", &yard.key()]);
    serves("1");
    // One whose phar is damaged is served by nobody.
    let tree = yard.path("tree-3");
    std::fs::create_dir_all(&tree).expect("a directory");
    let mut bytes = std::fs::read(yard.path("tree-2/app.phar")).expect("a phar");
    bytes[40] ^= 1;
    std::fs::write(tree.join("app.phar"), bytes).expect("a file");
    yard.push(&tree, &["--no-compile"]);
    let (said, code) = yard.activate("latest", &[]);
    assert!(code == 70 && said.contains("nothing has changed"), "{code}: {said}");
    serves("1");
}
