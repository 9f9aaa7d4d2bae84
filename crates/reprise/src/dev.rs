//! `reprise dev DIR`: serves an application while its code is written.

use std::path::PathBuf;

use clap::Args;
use supervisor::os::programs::PhpVersion;

use crate::development::{Dev, editor, local_authority};
use crate::exit::{Code, Failure};
use crate::flags::What;
use crate::listen;
use crate::options::Mode;
use crate::serve;

/// What `--help` says below the flags.
pub const HELP: &str = "Examples:\n  reprise dev\n  reprise dev ~/shop --https --open\n  reprise dev . --editor vscode --ignore public/uploads\n\n\
    A request that comes after a save is run by what was saved. Pages in the browser reload by themselves. Caches are off. \
    On a terminal: r restarts, o opens the browser, l shows requests as they come or not, q quits.";

/// What is to be served.
#[derive(Args)]
pub struct Asked {
    /// The application's directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Address to listen on: HOST:PORT, https://HOST:PORT or unix:/PATH; may be repeated
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Also at https://localhost:8443, with a certificate of an authority of this machine's own
    #[arg(long)]
    https: bool,
    /// Listen where other machines can connect to: they see source and stack traces of errors
    #[arg(long)]
    public: bool,
    /// Answer to this host name too, besides localhost and the addresses; may be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Links of the error page open files there: vscode, vscodium, phpstorm, idea, sublime, vim, emacs, zed, none, or a URL with %f and %l
    /// [default: REPRISE_EDITOR in the environment, else vscode]
    #[arg(long, value_name = "EDITOR")]
    editor: Option<String>,
    /// Changes of this file, or below this directory, do nothing; may be repeated
    #[arg(long, value_name = "PATH")]
    ignore: Vec<PathBuf>,
    /// Open the browser when the server is ready
    #[arg(long)]
    open: bool,
    /// PHP workers of each lane
    #[arg(long, value_name = "N")]
    workers: Option<u64>,
    /// How the front controller runs
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Version of PHP, such as 8.4
    #[arg(long, value_name = "VERSION")]
    php: Option<PhpVersion>,
    /// A php.ini setting; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    ini: Vec<String>,
    /// An environment variable for PHP; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Run PHP as this user (needs root)
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

/// Serves until told to stop.
pub fn run(asked: Asked) -> Result<Code, Failure> {
    let usage = |what: String| move |why: std::io::Error| Failure::new(Code::Usage, what, why);
    let directory = asked.directory.canonicalize();
    let directory = directory.map_err(usage(format!("directory {}", asked.directory.display())))?;
    if !directory.is_dir() {
        let what = format!("directory {}", asked.directory.display());
        return Err(Failure::new(Code::Usage, what, "is a file, and saves are seen in directories alone")
            .hint("name the directory; a phar is served by reprise serve FILE, and written in the directory that it is built from"));
    }
    let absolute = |path: &PathBuf| {
        let below = directory.join(path);
        below.canonicalize().or_else(|_| std::path::absolute(&below))
    };
    let ignored =
        asked.ignore.iter().map(absolute).collect::<Result<Vec<PathBuf>, _>>().map_err(usage("--ignore".to_owned()))?;
    let ignored = [ignored, own_output()].concat();
    let mut listen = asked.listen.clone();
    if listen.is_empty() {
        listen.extend(asked.https.then(|| "https://127.0.0.1:8443".to_owned()));
        listen.push("127.0.0.1:8080".to_owned());
    } else if asked.https && !listen.iter().any(|address| listen::is_tls(address)) {
        listen.insert(0, "https://127.0.0.1:8443".to_owned());
    }
    let takes_https = listen.iter().any(|address| listen::is_tls(address));
    let dev = Dev {
        hosts: asked.host.iter().map(|host| host.to_ascii_lowercase()).collect(),
        is_public: asked.public,
        ignored,
        certificates: takes_https.then(local_authority::certificates).transpose()?,
        error_page: editor::error_page(&asked.editor.or_else(editor::of_environment).unwrap_or_default())?,
        opens: asked.open,
        directory: directory.clone(),
    };
    let what = What {
        directory: Some(directory),
        listen,
        workers: asked.workers,
        mode: asked.mode,
        php: asked.php,
        ini: asked.ini,
        env: asked.env,
        user: asked.user,
        dev: Some(dev),
        ..What::default()
    };
    serve::run(what, false)
}

/// Files that this process writes to, because its output was redirected: a line about a change would be a change.
fn own_output() -> Vec<PathBuf> {
    ["/proc/self/fd/1", "/proc/self/fd/2"].iter().filter_map(|link| std::fs::read_link(link).ok()).collect()
}
