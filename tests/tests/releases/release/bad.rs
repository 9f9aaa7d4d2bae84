//! What a node does not serve: releases that do not boot, that nobody has signed, records that are altered or come again.

use tests::yard::Yard;

/// A release that fails in its boot is served by nobody, and the old one goes on.
#[test]
fn a_release_that_fails_in_its_boot_is_refused() {
    let yard = Yard::new(None);
    yard.push_version("1");
    yard.activate_fine("latest");
    // A script that the configuration names has to be in each release.
    let node = yard.node("one", "", "mode.\"index.php\" = \"classic\"");
    yard.await_nodes(1);
    let bad = [("syntax", "<?php function {"), ("fatal", "<?php nothing();"), ("empty", ""), ("without", "-")];
    for (name, code) in bad {
        let tree = yard.tree(name);
        match code {
            "" => std::fs::remove_dir_all(tree.join("public")).unwrap(),
            "-" => std::fs::rename(tree.join("public/index.php"), tree.join("public/other.php")).unwrap(),
            code => std::fs::write(tree.join("public/index.php"), code).unwrap(),
        }
        yard.push(&tree, &["--no-compile"]);
        let (text, code) = yard.activate("latest", &[]);
        assert!(code == 70 && text.contains("nothing has changed") && text.contains("one"), "{name}: {code} {text}");
        assert!(node.serves("1") && node.is_ready(), "{name}");
        if name == "without" {
            assert!(text.contains("script index.php is not a file in") && text.contains("reprise.toml:"), "{text}");
        }
    }
    yard.push_version("2");
    yard.activate_fine("latest");
    assert!(node.serves("2"));
}

/// Who can write to the pool, and has no key, changes nothing.
#[test]
fn what_is_not_signed_or_comes_again_is_not_followed() {
    let yard = Yard::new(None);
    yard.push_version("1");
    yard.activate_fine("latest");
    let pool = yard.path("pool/shop");
    let old = std::fs::read(pool.join("serve")).unwrap();
    let node = yard.node("one", "", "");
    yard.await_nodes(1);
    yard.push_version("2");
    yard.activate_fine("latest");
    assert!(node.serves("2"));
    let told = |why: &str| tests::wait_until(why, 20, || node.server.log().contains(why));
    // The first record again.
    std::fs::write(pool.join("serve"), &old).unwrap();
    told("a replay");
    // An altered one.
    let mut altered = old.clone();
    let last = altered.len() - 2;
    altered[last] ^= 1;
    std::fs::write(pool.join("serve"), &altered).unwrap();
    told("has a signature that is wrong");
    // One that nobody has signed, with a release that nobody has signed.
    let tree = yard.tree("3");
    let file = yard.path("unsigned");
    yard.fine(&["build", tree.to_str().unwrap(), "-o", file.to_str().unwrap(), "--name", "shop", "--no-compile"]);
    yard.fine(&["push", file.to_str().unwrap(), &yard.pool]);
    let (text, _) = yard.release(&["activate", &yard.pool, "shop", "latest"]);
    assert!(text.contains("signature") || text.contains("signed"), "{text}");
    // Nor does anybody sign a number that others have made up.
    std::fs::remove_file(pool.join("serve")).unwrap();
    let (text, code) = yard.release(&["activate", &yard.pool, "shop", "latest"]);
    assert!(code != 0 && text.contains("the record 'prepare'"), "{text}");
    std::fs::remove_file(pool.join("prepare")).unwrap();
    let (text, code) = yard.release(&["activate", &yard.pool, "shop", "latest", "--timeout", "2"]);
    assert!(code != 0, "{text}");
    told("is not signed, and release_keys asks for a signature");
    // Another's key.
    let other = yard.path("other");
    yard.fine(&["keygen", "-o", other.to_str().unwrap()]);
    let of_other =
        ["build", tree.to_str().unwrap(), "-o", file.to_str().unwrap(), "--name", "shop", "--no-compile", "--key"];
    yard.fine(&[&of_other[..], &[other.to_str().unwrap()]].concat());
    yard.fine(&["push", file.to_str().unwrap(), &yard.pool, "--key", other.to_str().unwrap()]);
    std::fs::remove_file(pool.join("prepare")).unwrap();
    yard.release(&["activate", &yard.pool, "shop", "latest", "--timeout", "2", "--key", other.to_str().unwrap()]);
    told("which is none of release_keys");
    assert!(node.serves("2") && node.is_ready());
}

/// A file that is cut off or altered in the pool is refused before it is asked for, and the node that finds one so too.
#[test]
fn a_file_that_is_damaged_in_the_pool_is_refused() {
    let yard = Yard::new(None);
    yard.push_version("1");
    yard.activate_fine("latest");
    let node = yard.node("one", "", "");
    yard.await_nodes(1);
    yard.push_version("2");
    let list: Vec<_> = std::fs::read_dir(yard.path("pool/shop")).unwrap().flatten().map(|one| one.path()).collect();
    let file = list.iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("2-")).unwrap();
    let good = std::fs::read(file).unwrap();
    for bad in [&good[..good.len() - 1], &good[..50], b"", &[&good[..], b"x"].concat()] {
        std::fs::write(file, bad).unwrap();
        let (text, code) = yard.activate("latest", &[]);
        assert!(code != 0 && text.contains("the release 2-"), "{text}");
        assert!(node.serves("1"));
    }
    std::fs::write(file, good).unwrap();
    yard.activate_fine("latest");
    assert!(node.serves("2"));
}

/// Configurations that cannot be meant.
#[test]
fn options_that_do_not_agree_are_refused() {
    let yard = Yard::new(None);
    let check = |lines: &str| {
        let file = yard.path("reprise.toml");
        std::fs::write(&file, format!("release_dir = \"{0}/r\"\nrelease_state = \"{0}/s\"\n[[application]]\nname = \"shop\"\nroot = \"public\"\n{lines}\n", yard.path("").display())).unwrap();
        let output = std::process::Command::new(tests::server::program())
            .args(["check", "--config"])
            .arg(file)
            .output()
            .unwrap();
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    };
    for (lines, word) in [
        ("release_pool = \"valkey://127.0.0.1\"", "release_keys"),
        ("release_pool = \"ftp://x\"", "release_pool"),
        ("release_pool = \"/p\"\nrelease_keys = [\"x\"]", "keygen"),
        ("release_pool = \"/p\"\nrelease_writable = [\"../x\"]", "public/uploads"),
        ("release_pool = \"/p\"\nrelease_writable = [\"a\", \"a/b\"]", "writable already"),
        ("release_pool = \"/p\"\nrelease_keep = 1", "release_keep"),
    ] {
        let (text, code) = check(lines);
        assert!(code == Some(78) && text.contains(word), "{lines}: {code:?} {text}");
    }
}
