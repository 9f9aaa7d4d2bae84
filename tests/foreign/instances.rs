//! Running instances of Reprise, one for each document root and set of php.ini settings. The look-alike, a process per
//! request, asks for them over a socket; all of them end with the registry.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tests::{Server, Setup};

/// Tells the look-alike where to ask.
pub const SOCKET: &str = "REPRISE_FOREIGN_INSTANCES";

/// How a word of a question begins that is a variable of the environment and no setting of php.ini.
pub const ENVIRONMENT: &str = "env:";

/// How many run at once. The tests come in the order of their directories, where settings recur.
const LIMIT: usize = 12;

/// What no log may hold: a worker's death, the sanitizers' reports.
const BAD_NEWS: [&str; 3] = ["was killed by", "Sanitizer:", "runtime error"];

/// One instance: started by the first who asks for it, while others who ask wait.
type Slot = Arc<Mutex<Option<Server>>>;

/// All that run.
pub struct Instances {
    /// By what was asked for, the last at the end.
    running: Mutex<Vec<(String, Slot)>>,
    environment: Vec<(&'static str, PathBuf)>,
    complaints: Mutex<Vec<String>>,
}

impl Instances {
    /// Listens at `socket`. `environment` is PHP's.
    pub fn listen(socket: &Path, environment: Vec<(&'static str, PathBuf)>) -> io::Result<Arc<Instances>> {
        let listener = UnixListener::bind(socket)?;
        fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
        let instances = Arc::new(Instances { running: Mutex::default(), environment, complaints: Mutex::default() });
        // They end with the last owner, which is not one of these threads.
        let answering = Arc::downgrade(&instances);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(instances) = answering.upgrade() else { break };
                thread::spawn(move || instances.answer(stream));
            }
        });
        Ok(instances)
    }

    /// Ends all of them. Returns what they said of workers that died or memory that was misused.
    pub fn end(&self) -> Vec<String> {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        running.iter().for_each(|(_, slot)| self.stop(slot));
        std::mem::take(&mut *self.complaints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(&self, mut stream: UnixStream) {
        let mut question = String::new();
        if stream.read_to_string(&mut question).is_err() {
            return;
        }
        // What made it fail has been printed; an empty answer tells the look-alike.
        let port = catch_unwind(AssertUnwindSafe(|| self.port(&question)));
        let _ = stream.write_all(port.map_or(String::new(), |port| port.to_string()).as_bytes());
    }

    /// The port of the instance that fits a question: a document root, its settings and its
    /// environment, with NUL between.
    fn port(&self, question: &str) -> u16 {
        let slot = self.slot(question);
        let mut server = slot.lock().unwrap_or_else(PoisonError::into_inner);
        server.get_or_insert_with(|| self.start(question)).port
    }

    fn slot(&self, question: &str) -> Slot {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let known = running.iter().position(|(key, _)| key == question);
        let (key, slot) = known.map_or_else(|| (question.to_owned(), Slot::default()), |at| running.remove(at));
        running.push((key, Arc::clone(&slot)));
        let oldest = (running.len() > LIMIT).then(|| running.remove(0));
        drop(running);
        if let Some((_, oldest)) = oldest {
            self.stop(&oldest);
        }
        slot
    }

    fn stop(&self, slot: &Slot) {
        let Some(server) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let log = server.log();
        if BAD_NEWS.iter().any(|words| log.contains(words)) {
            self.complaints.lock().unwrap_or_else(PoisonError::into_inner).push(log);
        }
    }

    fn start(&self, question: &str) -> Server {
        let mut words = question.split('\0');
        let root = Path::new(words.next().unwrap_or_default());
        let setup = Setup::root(root)
            .server("access_log = \"off\"")
            .application("workers = 1")
            .application("front_controller = \"\"")
            // PHP's own limits are under test, behind a web server's.
            .application("max_body = \"0\"");
        let setup = self.environment.iter().fold(setup, |setup, (name, path)| setup.env(name, &path.to_string_lossy()));
        let (variables, settings): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with(ENVIRONMENT));
        let setup = variables.iter().fold(setup, |setup, variable| {
            let (name, value) = variable[ENVIRONMENT.len()..].split_once('=').unwrap_or_default();
            setup.env(name, &toml(value))
        });
        let settings = settings_of(settings.into_iter());
        settings.iter().fold(setup, |setup, (name, value)| setup.ini(name, &toml(value))).start()
    }
}

/// `name=value` as php-cgi reads it after -d: without a value it is 1. The last of a name wins.
fn settings_of<'a>(words: impl Iterator<Item = &'a str>) -> Vec<(&'a str, &'a str)> {
    let mut settings: Vec<(&str, &str)> = Vec::new();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, "1"));
        settings.retain(|&(known, _)| known != name);
        settings.push((name, value));
    }
    settings
}

/// Inside the quotes of a TOML text.
fn toml(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}
