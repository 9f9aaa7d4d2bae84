//! Files of releases: a tree that is packed and unpacked is the same tree, and no broken or hostile file is unpacked.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use release::container::{self, HEADER, MAGIC};
use release::fault::Fault;
use release::fetch;
use release::kept::Kept;
use release::keys::{Keys, Purpose, Seal, SecretKey};
use release::manifest::{self, Compiled, Entry, FORMAT, Limits, Manifest};
use release::pack;
use release::pool;
use release::record::Release;
use release::settings::Settings;
use release::tree::{self, Excludes, Source};
use release::unpack::{self, CODE, OPCACHE, Shared};

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let path = std::env::temp_dir().join(format!("reprise-release-{:032x}", fastrand::u128(..)));
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A tree of a few files.
    fn tree(&self) -> PathBuf {
        let root = self.path("tree");
        fs::create_dir_all(root.join("public/uploads")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join(".git/HEAD"), "x").unwrap();
        fs::write(root.join("public/index.php"), "<?php echo 1;").unwrap();
        fs::write(root.join("public/uploads/seed.txt"), "seed").unwrap();
        fs::write(root.join("large.bin"), vec![7; 300_000]).unwrap();
        fs::write(root.join("empty"), "").unwrap();
        fs::write(root.join("run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(root.join("run.sh"), Permissions::from_mode(0o770)).unwrap();
        root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = unpack::remove(&self.0);
    }
}

const LIMITS: Limits = Limits { bytes: 1 << 20 };

fn excludes() -> Excludes {
    Excludes(tree::LEFT_OUT.map(str::to_owned).to_vec())
}

fn keys(key: &SecretKey) -> Keys {
    Keys { trusted: vec![key.public()], allows_unsigned: false }
}

fn manifest_of(sources: &[Source]) -> Manifest {
    let files: Vec<Entry> = sources.iter().map(|one| one.entry.clone()).collect();
    Manifest {
        format: FORMAT,
        application: "shop".to_owned(),
        id: manifest::id(&files),
        sequence: 5,
        made: 1_700_000_000,
        compiled: None,
        files,
        code: Vec::new(),
    }
}

/// Packs the tree of a directory.
fn build(scratch: &Scratch, key: &SecretKey) -> (PathBuf, Manifest) {
    let sources = tree::collect(&scratch.tree(), &excludes(), &mut |_| {}).unwrap();
    let (file, manifest) = (scratch.path("one.release"), manifest_of(&sources));
    pack::write(&file, &manifest, &sources, Some(key), &mut |_| {}).unwrap();
    (file, manifest)
}

/// All that is done with a file before anything of it is used.
fn take(file: &Path, keys: &Keys, to: &Path, shared: &[Shared]) -> Result<Manifest, Fault> {
    let (manifest, archive) = container::check(File::open(file).unwrap(), keys)?.read(&LIMITS)?;
    unpack::unpack(archive, &manifest, "digest", to, shared)?;
    Ok(manifest)
}

/// A file with that manifest and archive, signed.
fn forge(scratch: &Scratch, key: &SecretKey, manifest: &str, archive: &[u8]) -> PathBuf {
    let body = [&(manifest.len() as u32).to_le_bytes(), manifest.as_bytes(), archive].concat();
    let (digest, length) = container::hash(&body[..]).unwrap();
    let seal = key.sign(Purpose::Release, &digest);
    let path = scratch.path("forged.release");
    fs::write(&path, [&MAGIC[..], &length.to_le_bytes(), &seal.bytes(), &body].concat()).unwrap();
    path
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}

fn entry(path: &str, content: &[u8]) -> Entry {
    let (hash, size) = container::hash(content).unwrap();
    let sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Entry { path: path.to_owned(), size, executable: false, modified: 1, sha256 }
}

#[test]
fn a_tree_comes_back_read_only_with_its_times() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let (file, made) = build(&scratch, &key);
    let to = scratch.path("out");
    assert_eq!(take(&file, &keys(&key), &to, &[]), Ok(made.clone()));
    let found = tree::collect(&to.join(CODE), &excludes(), &mut |_| {}).unwrap();
    let files: Vec<Entry> = found.iter().map(|one| one.entry.clone()).collect();
    assert_eq!(files, made.files, "contents, modes and times");
    for name in ["public/index.php", "public", "", "run.sh"] {
        let mode = fs::metadata(to.join(CODE).join(name)).unwrap().mode();
        assert_eq!(mode & 0o222, 0, "{name}: {mode:o}");
    }
    assert!(!to.join(CODE).join(".git").exists());
    unpack::remove(&to).unwrap();
    assert!(!to.exists());
}

#[test]
fn the_same_tree_has_the_same_id_wherever_and_whenever_it_lies() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let id = |scratch: &Scratch| manifest_of(&tree::collect(&scratch.tree(), &excludes(), &mut |_| {}).unwrap()).id;
    assert_eq!(id(&one), id(&two));
    fs::write(two.tree().join("public/index.php"), "<?php echo 2;").unwrap();
    let changed = manifest_of(&tree::collect(&two.path("tree"), &excludes(), &mut |_| {}).unwrap());
    assert_ne!(id(&one), changed.id);
}

#[test]
fn a_file_that_is_cut_off_altered_longer_or_not_ours_is_refused() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let (file, _) = build(&scratch, &key);
    let (good, to, bad) = (fs::read(&file).unwrap(), scratch.path("out"), scratch.path("bad.release"));
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&bad, bytes).unwrap();
        assert!(matches!(take(&bad, &keys(&key), &to, &[]), Err(Fault::Refused(_))), "{what}");
        assert!(!to.exists(), "{what}");
    };
    for cut in (0..good.len()).step_by(7) {
        refused(&good[..cut], &format!("cut off at {cut}"));
    }
    for at in 0..good.len() {
        // Each byte of the header and the manifest, and a sample of the rest.
        if at < 400 || at % 13 == 0 {
            let mut altered = good.clone();
            altered[at] ^= 1 << (at % 8);
            refused(&altered, &format!("byte {at}"));
        }
    }
    refused(&[&good[..], b"x"].concat(), "longer");
    refused(&vec![0; 10_000], "zeroes");
    let mut unsigned = good.clone();
    unsigned[24..HEADER].fill(0);
    refused(&unsigned, "unsigned");
    fs::write(&bad, &unsigned).unwrap();
    let lax = Keys { allows_unsigned: true, ..Keys::default() };
    assert!(take(&bad, &lax, &to, &[]).is_ok(), "unsigned where that is allowed");
    unpack::remove(&to).unwrap();
    let theirs = SecretKey::generate().unwrap();
    let (digest, _) = container::hash(&good[HEADER..]).unwrap();
    for seal in [
        theirs.sign(Purpose::Release, &digest),
        key.sign(Purpose::Record, &digest),
        Seal { key: key.public().id(), ..Seal::NONE },
    ] {
        let mut other = good.clone();
        other[24..HEADER].copy_from_slice(&seal.bytes());
        refused(&other, "another's signature");
    }
}

#[test]
fn a_signed_file_that_says_what_cannot_be_is_refused() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let to = scratch.path("out");
    let try_it = |manifest: &str, archive: &[u8]| {
        let file = forge(&scratch, &key, manifest, archive);
        let taken = take(&file, &keys(&key), &to, &[]);
        assert!(!to.exists() || taken.is_ok());
        let left: Vec<_> = fs::read_dir(&scratch.0).unwrap().flatten().map(|one| one.file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{left:?}");
        unpack::remove(&to).unwrap();
        taken.map(|_| ())
    };
    let of = |files: Vec<Entry>| {
        let id = manifest::id(&files);
        let one = Manifest { files, id, ..manifest_of(&[]) };
        serde_json::to_string(&one).unwrap()
    };
    let good = of(vec![entry("a", b"one"), entry("b", b"two")]);
    assert_eq!(try_it(&good, &zstd_of(b"onetwo")), Ok(()));
    for (archive, what) in
        [(&b"onetw"[..], "cut off"), (b"onetwO", "another content"), (b"onetwox", "more"), (b"", "empty")]
    {
        assert!(try_it(&good, &zstd_of(archive)).is_err(), "{what}");
    }
    assert!(try_it(&good, b"onetwo").is_err(), "not compressed");
    let zstd = zstd_of(b"onetwo");
    assert!(try_it(&good, &zstd[..zstd.len() - 2]).is_err(), "a stream that is cut off");
    for path in ["../a", "/tmp/reprise-release-outside", "a/../../b", ".", "", "a\0b"] {
        assert!(try_it(&of(vec![entry(path, b"one")]), &zstd_of(b"one")).is_err(), "{path:?}");
    }
    for (one, two) in [("a", "a"), ("b", "a"), ("a", "a/b")] {
        assert!(try_it(&of(vec![entry(one, b"one"), entry(two, b"two")]), &zstd_of(b"onetwo")).is_err(), "{one} {two}");
    }
    // A bomb: a megabyte more than what is said, and what is said is more than the limit.
    assert!(try_it(&good, &zstd_of(&vec![b'x'; 4 << 20])).is_err());
    let bomb = vec![0; 2 << 20];
    assert!(try_it(&of(vec![entry("a", &bomb)]), &zstd_of(&bomb)).unwrap_err().to_string().contains("release_memory"));
    for more in ["\"link\":\"/etc/passwd\"", "\"device\":1", "\"owner\":0"] {
        let odd = good.replacen("\"path\"", &format!("{more},\"path\""), 1);
        assert!(try_it(&odd, &zstd_of(b"onetwo")).is_err(), "{more}");
    }
    for odd in ["", "{", "[]", "null", &"[".repeat(100_000)] {
        assert!(try_it(odd, b"").is_err(), "{odd:.9}");
    }
    let body = [&u32::MAX.to_le_bytes()[..], b"{}"].concat();
    let (digest, length) = container::hash(&body[..]).unwrap();
    let file = scratch.path("long.release");
    let seal = key.sign(Purpose::Release, &digest);
    fs::write(&file, [&MAGIC[..], &length.to_le_bytes(), &seal.bytes(), &body].concat()).unwrap();
    assert!(take(&file, &keys(&key), &to, &[]).is_err(), "a manifest of 4 GiB");
}

#[test]
fn where_the_application_writes_there_is_a_link() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let (file, _) = build(&scratch, &key);
    let (to, uploads) = (scratch.path("out"), scratch.path("uploads"));
    fs::create_dir(&uploads).unwrap();
    let shared = |path: &str| Shared { path: path.to_owned(), to: uploads.clone() };
    take(&file, &keys(&key), &to, &[shared("public/uploads"), shared("var/log")]).unwrap();
    for path in ["public/uploads", "var/log"] {
        assert_eq!(fs::read_link(to.join(CODE).join(path)).unwrap(), uploads);
    }
    assert_eq!(fs::read_dir(&uploads).unwrap().count(), 0, "what the release has there stays out");
    let out = scratch.path("again");
    assert!(take(&file, &keys(&key), &out, &[shared("public/index.php/x")]).is_err(), "a file is in the way");
    assert!(!out.exists());
}

#[test]
fn trees_that_cannot_be_releases_are_refused_with_names() {
    let scratch = Scratch::new();
    let root = scratch.tree();
    let fails = |word: &str| {
        let why = tree::collect(&root, &excludes(), &mut |_| {}).unwrap_err().to_string();
        assert!(why.contains(word) && why.contains("--exclude"), "{why}");
    };
    symlink("/etc/passwd", root.join("link")).unwrap();
    fails("out of the directory");
    fs::remove_file(root.join("link")).unwrap();
    symlink("nowhere", root.join("link")).unwrap();
    fails("leads nowhere");
    fs::remove_file(root.join("link")).unwrap();
    symlink(".", root.join("link")).unwrap();
    fails("link to a directory");
    fs::remove_file(root.join("link")).unwrap();
    symlink("link", root.join("link")).unwrap();
    fails("leads nowhere");
    fs::remove_file(root.join("link")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(root.join("fifo")).status().unwrap();
    assert!(fifo.success());
    fails("neither a file");
    fs::remove_file(root.join("fifo")).unwrap();
    symlink("run.sh", root.join("link")).unwrap();
    let found = tree::collect(&root, &excludes(), &mut |_| {}).unwrap();
    let by: BTreeMap<&str, &Entry> = found.iter().map(|one| (one.entry.path.as_str(), &one.entry)).collect();
    assert_eq!(by["link"].sha256, by["run.sh"].sha256, "what a link leads to is packed in its place");
}

#[test]
fn a_file_that_changes_while_it_is_packed_is_noticed() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let root = scratch.tree();
    let sources = tree::collect(&root, &excludes(), &mut |_| {}).unwrap();
    for change in ["<?php echo 2;", "<?php echo 1; // longer"] {
        File::create(root.join("public/index.php")).unwrap().write_all(change.as_bytes()).unwrap();
        let file = scratch.path("one.release");
        let why = pack::write(&file, &manifest_of(&sources), &sources, Some(&key), &mut |_| {}).unwrap_err();
        assert!(why.to_string().contains("index.php"), "{why}");
        assert!(!file.exists());
    }
}

/// A node's settings with a pool in a directory that has that release.
fn node(scratch: &Scratch, key: &SecretKey, file: &Path) -> (Settings, Release) {
    let checked = container::check(File::open(file).unwrap(), &keys(key)).unwrap();
    let digest = checked.digest.clone();
    let (manifest, _) = checked.read(&LIMITS).unwrap();
    let release = Release { sequence: manifest.sequence, id: manifest.id, digest };
    for name in ["nodes", "state", "pool"] {
        fs::create_dir_all(scratch.path(name)).unwrap();
    }
    let settings = Settings {
        application: "shop".to_owned(),
        node: "one".to_owned(),
        pool: scratch.path("pool").to_str().unwrap().to_owned(),
        ca: None,
        keys: vec![key.public().text()],
        directory: scratch.path("nodes"),
        state: scratch.path("state"),
        keep: 3,
        memory: 1 << 20,
        uncertain_ms: 1000,
        shared: Vec::new(),
        php: "8.4.1".to_owned(),
    };
    let mut pool = pool::open(&settings.pool, "shop", None).unwrap();
    assert_eq!(pool.put(&release.name(), &mut File::open(file).unwrap(), &mut |_| {}), Ok(true));
    (settings, release)
}

#[test]
fn a_node_fetches_keeps_and_needs_the_pool_no_more() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let (file, _) = build(&scratch, &key);
    let (settings, release) = node(&scratch, &key, &file);
    let mut kept = Kept::default();
    assert!(fetch::fetch(&settings, &mut kept, &release).unwrap());
    let place = settings.place(&release.id);
    assert!(place.join(CODE).join("public/index.php").is_file() && place.join(OPCACHE).is_dir());
    fs::remove_dir_all(scratch.path("pool")).unwrap();
    assert!(!fetch::fetch(&settings, &mut kept, &release).unwrap(), "it is there");
    // Another directory is to be written: the same code, with a link.
    let uploads = scratch.path("uploads");
    let changed = Settings { shared: vec![("public/uploads".to_owned(), uploads.clone())], ..settings.clone() };
    assert!(fetch::fetch(&changed, &mut kept, &release).unwrap());
    assert_eq!(fs::read_link(place.join(CODE).join("public/uploads")).unwrap(), uploads);
    assert!(!fetch::fetch(&changed, &mut kept, &release).unwrap());
    let list = fs::read_dir(place.parent().unwrap()).unwrap().count();
    assert_eq!(list, 1, "what was there before is gone");
    unpack::remove(&place).unwrap();
    assert!(fetch::fetch(&settings, &mut kept, &release).unwrap(), "from the kept file");
    // One that was damaged on the disk is fetched anew, or refused.
    unpack::remove(&place).unwrap();
    let own = release::kept::file(&settings, &release);
    let mut bytes = fs::read(&own).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&own, bytes).unwrap();
    assert!(fetch::fetch(&settings, &mut kept, &release).is_err());
}

/// The same sources have the same id; what is compiled of them for another PHP has not the same digest.
#[test]
fn the_same_sources_built_again_are_unpacked_again() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let (file, manifest) = build(&scratch, &key);
    let (settings, release) = node(&scratch, &key, &file);
    let mut kept = Kept::default();
    assert!(fetch::fetch(&settings, &mut kept, &release).unwrap());
    let sources = tree::collect(&scratch.tree(), &excludes(), &mut |_| {}).unwrap();
    let newer = Manifest { sequence: manifest.sequence + 1, ..manifest };
    pack::write(&file, &newer, &sources, Some(&key), &mut |_| {}).unwrap();
    fs::remove_dir_all(scratch.path("pool")).unwrap();
    let (settings, again) = node(&scratch, &key, &file);
    assert!(again.id == release.id && again.digest != release.digest);
    assert!(fetch::fetch(&settings, &mut kept, &again).unwrap());
    assert!(release::kept::file(&settings, &again).is_file(), "this node starts with it when the pool is gone");
}

/// Processes that fetch are killed when their release is given up.
#[test]
fn what_killed_processes_have_left_is_removed() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let (file, _) = build(&scratch, &key);
    let (settings, release) = node(&scratch, &key, &file);
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    let pid = gone.id();
    gone.wait().unwrap();
    let [left, lives] = [pid, std::os::unix::process::parent_id()]
        .map(|pid| settings.directory.join(format!(".{}.{pid}.part", "a".repeat(40))));
    for one in [&left, &lives] {
        fs::create_dir(one).unwrap();
        fs::write(one.join("file"), "half").unwrap();
    }
    let file = release::kept::file(&settings, &Release { sequence: 1, id: "b".repeat(40), ..release.clone() })
        .with_extension("part");
    fs::write(&file, "half").unwrap();
    fetch::fetch(&settings, &mut Kept::default(), &release).unwrap();
    assert!(!left.exists() && lives.exists() && !file.exists());
}

/// A process that was killed may have left one; whoever has it open still writes to what is no longer read.
#[test]
fn a_file_that_another_writes_is_not_the_one_that_is_checked() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let (file, _) = build(&scratch, &key);
    let (settings, release) = node(&scratch, &key, &file);
    let own = release::kept::file(&settings, &release);
    let mut another = File::create(own.with_extension("part")).unwrap();
    fetch::fetch(&settings, &mut Kept::default(), &release).unwrap();
    another.write_all(b"something else").unwrap();
    assert_eq!(fs::read(own).unwrap(), fs::read(file).unwrap());
}

#[test]
fn a_node_refuses_what_is_not_for_it() {
    let (scratch, key) = (Scratch::new(), SecretKey::generate().unwrap());
    let sources = tree::collect(&scratch.tree(), &excludes(), &mut |_| {}).unwrap();
    let compiled = |php: &str, architecture: &str, directory: &Path| {
        Some(Compiled {
            php: php.to_owned(),
            build: "a".repeat(32),
            architecture: architecture.to_owned(),
            directory: directory.to_str().unwrap().to_owned(),
        })
    };
    let (here, nodes) = (std::env::consts::ARCH, scratch.path("nodes"));
    for (compiled, application, word) in [
        (compiled("8.4.2", here, &nodes), "shop", "PHP 8.4.2"),
        (compiled("8.4.1", "pdp11", &nodes), "shop", "pdp11"),
        (compiled("8.4.1", here, Path::new("/elsewhere")), "shop", "/elsewhere"),
        (None, "blog", "blog"),
        (compiled("8.4.1", here, &nodes), "shop", ""),
    ] {
        let manifest = Manifest { compiled, application: application.to_owned(), ..manifest_of(&sources) };
        let file = scratch.path("one.release");
        pack::write(&file, &manifest, &sources, Some(&key), &mut |_| {}).unwrap();
        let _ = fs::remove_dir_all(scratch.path("pool"));
        let (settings, release) = node(&scratch, &key, &file);
        let fetched = fetch::fetch(&settings, &mut Kept::default(), &release).map(|_| ());
        match word {
            "" => assert_eq!(fetched, Ok(())),
            word => assert!(fetched.unwrap_err().to_string().contains(word), "{word}"),
        }
        let _ = fs::remove_file(release::kept::file(&settings, &release));
        unpack::remove(&settings.place(&release.id)).unwrap();
    }
    // The pool lies: another file, with a right signature, under the name of the one that the record means.
    let (file, _) = build(&scratch, &key);
    let _ = fs::remove_dir_all(scratch.path("pool"));
    let (settings, mut release) = node(&scratch, &key, &file);
    release.digest = "b".repeat(64);
    let why = fetch::fetch(&settings, &mut Kept::default(), &release).map(|_| ()).unwrap_err();
    assert!(why.to_string().contains("another one"), "{why}");
    let tight = Settings { memory: 1000, ..settings };
    let (_, release) = node(&Scratch::new(), &key, &file);
    let why = fetch::fetch(&tight, &mut Kept::default(), &release).map(|_| ()).unwrap_err();
    assert!(why.to_string().contains("release_memory"), "{why}");
}
