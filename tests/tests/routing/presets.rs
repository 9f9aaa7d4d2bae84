//! Presets beside what the makers of the applications document for nginx: one nginx with PHP-FPM, and one Reprise, over the
//! same trees. Each script of a tree says its name, its path info and its query; each file says its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::client::Response;
use tests::disguises::disguises;
use tests::peer::Fpm;
use tests::server::{Directory, program};
use tests::{Client, Setup};

use super::documented::{SITES, Site};

const SAY: &str =
    "<?php echo 'script ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '', ' ', $_SERVER['QUERY_STRING'];";

/// Makes the tree of a site; returns its document root.
fn plant(directory: &Path, site: &Site) -> PathBuf {
    let root = directory.join(site.name).join("public");
    fs::create_dir_all(&root).expect("a directory");
    let mut names: Vec<String> = site.files.iter().map(|name| (*name).to_owned()).collect();
    names.extend(site.package.iter().flat_map(|package| listing(Path::new(package))));
    for name in names {
        let path = root.join(&name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        if !path.is_dir() {
            fs::write(&path, if name.ends_with(".php") { SAY.to_owned() } else { format!("file /{name}") })
                .expect("a file");
        }
    }
    root
}

/// The files that a Debian package has below a directory.
fn listing(directory: &Path) -> Vec<String> {
    let output =
        Command::new("find").arg("-L").arg(directory).args(["-type", "f", "-printf", "%P\\n"]).output().expect("find");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<String> = text.lines().map(str::to_owned).filter(|name| !name.is_empty()).collect();
    names.sort();
    assert!(names.len() > 100, "{} is not installed", directory.display());
    names
}

/// URLs of a tree: its files and directories in several spellings, what is not there, and what its rules name.
fn urls(root: &Path, site: &Site, most: usize) -> Vec<String> {
    let mut paths = BTreeSet::new();
    for name in listing_of_tree(root) {
        let mut above = name.as_str();
        while let Some((directory, _)) = above.rsplit_once('/') {
            paths.insert(format!("/{directory}"));
            paths.insert(format!("/{directory}/"));
            paths.insert(format!("/{directory}/none.txt"));
            paths.insert(format!("/{directory}/none.php"));
            above = directory;
        }
        paths.insert(format!("//{name}"));
        paths.insert(format!("/./{name}?a=b"));
        if name.ends_with(".php") {
            paths.insert(format!("/{name}/info/x?q=1"));
        }
        paths.insert(format!("/{name}"));
    }
    let plain: Vec<String> =
        paths.into_iter().filter(|path| path.is_ascii() && !path.contains([' ', '#', '%', '\\'])).collect();
    let step = (plain.len() / most).max(1);
    let chosen = plain.into_iter().step_by(step).map(|path| path.replace('"', "%22"));
    chosen.chain(site.more.iter().map(|path| (*path).to_owned())).collect()
}

fn listing_of_tree(root: &Path) -> Vec<String> {
    let output = Command::new("find").arg(root).args(["-type", "f", "-printf", "%P\\n"]).output().expect("find");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// What matters of a response: its status, where it leads, and which file or script it is.
fn seen(answer: &Response) -> (u16, String, String) {
    let location = answer.header("location").unwrap_or("").to_owned();
    let location = location
        .split_once("://")
        .and_then(|(_, rest)| rest.find('/').map(|at| rest[at..].to_owned()))
        .unwrap_or(location);
    let text = answer.text();
    let body = if text.starts_with("script ") || text.starts_with("file ") { text } else { String::new() };
    (answer.status, location, body)
}

fn ask(client: &mut Client, host: &str, path: &str) -> Response {
    client.request("GET", path, &[("Host", host)], b"")
}

/// The differences that there may be, each for a reason. `None`: there may not be this one.
fn allowed(path: &str, nginx: &(u16, String, String), ours: &Response) -> Option<&'static str> {
    let seen = seen(ours);
    let plain = path.split('?').next().unwrap_or(path);
    let is_sent = |body: &str| body.starts_with("file ");
    if seen.0 == 403 && ours.header("reprise-refused") == Some("denied") && is_sent(&nginx.2) {
        return Some("default denial");
    }
    if is_sent(&nginx.2) && !is_sent(&seen.2) {
        let name = plain.rsplit('/').next().unwrap_or(plain);
        if plain.split('/').any(|segment| segment.starts_with('.')) {
            return Some("hidden");
        }
        let endings = [".inc", ".phtml", ".phar", ".phps", ".phpt", ".php"];
        if endings.iter().any(|ending| name.to_lowercase().contains(ending)) {
            return Some("source");
        }
    }
    // nginx refuses to list a directory; here the front controller gets its path.
    if nginx.0 == 403
        && nginx.2.is_empty()
        && (seen.2.starts_with("script /") || seen.0 == 404)
        && !seen.2.starts_with(&format!("script {plain} "))
    {
        return Some("directory");
    }
    // nginx redirects to a directory before it looks for an index.
    if nginx.0 == 301
        && nginx.1.split('?').next() == Some(&format!("{plain}/"))
        && (seen.2.starts_with("script /") || seen.0 == 404 || seen.0 == 403)
    {
        return Some("directory");
    }
    // A script that is not there is the front controller's path; nginx passes it to PHP-FPM, which has no such script.
    if nginx.0 == 404 && plain.contains("/none.php") && seen.2.starts_with("script /index.php ") {
        return Some("missing script");
    }
    // A denial of the one is 403, of the other 404; or the front controller says that there is nothing.
    let is_refusal = |status: u16| status == 403 || status == 404;
    if is_refusal(nginx.0) && is_refusal(seen.0) {
        return Some("403 or 404");
    }
    None
}

/// Every preset beside the documented configuration.
#[test]
fn presets_answer_as_the_documented_configurations() {
    let directory = Directory::new();
    let roots: Vec<(&Site, PathBuf)> = SITES.iter().map(|site| (site, plant(&directory.0, site))).collect();
    let sites: Vec<(String, &Path, &str)> =
        roots.iter().map(|(site, root)| (format!("{}.example", site.name), root.as_path(), site.nginx)).collect();
    let fpm = Fpm::with_sites(&sites);
    let mut setup = Setup::empty().application("hosts = [\"none.example\"]");
    for (site, root) in &roots {
        let lines = format!(
            "name = \"{0}\"\nroot = \"{1}\"\nhosts = [\"{0}.example\"]\nworkers = 1\npreset = \"{0}\"",
            site.name,
            root.display()
        );
        setup = setup.another(&lines);
    }
    let server = setup.start();
    let (mut ours, mut theirs) = (server.client(), Client::new(fpm.port));
    let (mut wrong, mut reasons, mut asked) = (Vec::new(), BTreeMap::<_, usize>::new(), BTreeMap::<_, usize>::new());
    for (site, root) in &roots {
        let host = format!("{}.example", site.name);
        for path in urls(root, site, tests::amount(250, 5000)) {
            let turn = asked.entry(site.name).or_default();
            *turn += 1;
            // nginx ends a connection after a thousand requests.
            if *turn % 500 == 1 {
                theirs = Client::new(fpm.port);
            }
            let nginx = seen(&ask(&mut theirs, &host, &path));
            let answer = ask(&mut ours, &host, &path);
            let own = seen(&answer);
            // Nothing that nginx denies is sent or run by its own name.
            let plain = path.split('?').next().unwrap_or(&path).replace("/./", "/").replace("//", "/");
            let is_own = own.2 == format!("file {plain}") || own.2.starts_with(&format!("script {plain} "));
            if matches!(nginx.0, 403 | 404) && is_own {
                wrong.push(format!("{host}{path}: nginx {nginx:?} denies it, Reprise {own:?}"));
            } else if nginx != own {
                match allowed(&plain, &nginx, &answer) {
                    Some(reason) => *reasons.entry(format!("{} {reason}", site.name)).or_default() += 1,
                    None => wrong.push(format!("{host}{path}: nginx {nginx:?}, Reprise {own:?}")),
                }
            }
        }
    }
    println!("{asked:?}\n{reasons:?}");
    assert!(wrong.is_empty(), "{} of {asked:?}\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}

/// 500 spellings and more of what each preset denies get nothing of it.
#[test]
fn no_spelling_gets_past_a_preset() {
    let directory = Directory::new();
    let mut setup = Setup::empty().application("hosts = [\"none.example\"]");
    for site in SITES {
        let root = plant(&directory.0, site);
        let lines = format!(
            "name = \"{0}\"\nroot = \"{1}\"\nhosts = [\"{0}.example\"]\nworkers = 1\npreset = \"{0}\"",
            site.name,
            root.display()
        );
        setup = setup.another(&lines);
    }
    let server = setup.start();
    let mut wrong = Vec::new();
    for site in SITES {
        let host = format!("{}.example", site.name);
        let (mut client, mut asked) = (server.client(), 0);
        for name in site.denied {
            let plain = ask(&mut client, &host, &format!("/{name}"));
            assert!(matches!(plain.status, 403 | 404), "{host}/{name}: {} {}", plain.status, plain.text());
            for target in disguises(name) {
                asked += 1;
                let head = format!(" HTTP/1.1\r\nHost: {host}\r\n\r\n");
                client.send(&[b"GET ", &target[..], head.as_bytes()].concat()).expect("a connection");
                let answer = client.read(false).unwrap_or_else(|error| panic!("{target:?}: {error}"));
                let text = answer.text();
                if text.contains(&format!("file /{name}")) || text.starts_with(&format!("script /{name} ")) {
                    wrong.push(format!("{host} {}: {text}", String::from_utf8_lossy(&target)));
                }
                if answer.header("connection") == Some("close") {
                    client = server.client();
                }
            }
        }
        assert!(asked >= 500, "{}: {asked}", site.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A tree says which application it is; `reprise check` says which preset that is and what it denies, and `preset = ""` ends it.
#[test]
fn a_tree_says_which_preset_it_has() {
    let directory = Directory::new();
    for site in SITES.iter().filter(|site| !["symfony", "laravel"].contains(&site.name)) {
        let root = plant(&directory.0, site);
        let config = directory.0.join("r.toml");
        let check = |more: &str| {
            fs::write(&config, format!("[[application]]\nroot = \"{}\"\n{more}\n", root.display())).expect("a file");
            let output =
                Command::new(program()).args(["check", "--config"]).arg(&config).output().expect("reprise check");
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
        let said = check("");
        assert!(said.contains(&format!("{} (the tree says so)", site.name)), "{said}");
        assert!(said.contains("deny = 40"), "{said}");
        assert!(!check("preset = \"\"").contains("the tree says so"));
        assert!(check("preset = \"wordpres\"").contains("did you mean 'wordpress'?"));
    }
}
