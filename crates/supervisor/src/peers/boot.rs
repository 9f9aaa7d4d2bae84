//! The request that a template boots an entry with: the head of a `GET /` that no client has sent.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use ipc::head::{TooLarge, Writer};
use ipc::key::Origin;
use ipc::layout::HEAD_SIZE;
use rustix::fs::{MemfdFlags, SealFlags, memfd_create};

/// The head, with the variables that the front gives to a real request to that origin, and one more that marks it as a boot.
pub fn head(root: &Path, script: &str, origin: Origin<'_>, is_worker_mode: bool) -> Result<Vec<u8>, TooLarge> {
    let mut buffer = vec![0; HEAD_SIZE];
    let (root, name) = (root.as_os_str().as_encoded_bytes(), script.as_bytes());
    let mut head = Writer::new(&mut buffer);
    head.head.query = head.add(&[b"QUERY_STRING"], &[])?;
    head.head.method = head.add(&[b"REQUEST_METHOD"], &[b"GET"])?;
    head.head.script = head.add(&[b"SCRIPT_FILENAME"], &[root, name])?;
    head.add(&[b"SCRIPT_NAME"], &[name])?;
    head.head.uri = head.add(&[b"REQUEST_URI"], &[b"/"])?;
    let port = origin.port().unwrap_or(if origin.is_https { "443" } else { "80" });
    for (variable, value) in [
        ("CONTENT_TYPE", b"" as &[u8]),
        ("CONTENT_LENGTH", b""),
        ("DOCUMENT_URI", name),
        ("DOCUMENT_ROOT", root),
        ("SERVER_PROTOCOL", b"HTTP/1.1"),
        ("REQUEST_SCHEME", origin.scheme().as_bytes()),
        ("GATEWAY_INTERFACE", b"CGI/1.1"),
        ("FCGI_ROLE", b"RESPONDER"),
        ("SERVER_SOFTWARE", concat!("reprise/", env!("CARGO_PKG_VERSION")).as_bytes()),
        ("REDIRECT_STATUS", b"200"),
        ("REMOTE_ADDR", b"127.0.0.1"),
        ("REMOTE_PORT", b"0"),
        ("SERVER_ADDR", b"127.0.0.1"),
        ("SERVER_PORT", port.as_bytes()),
        ("SERVER_NAME", origin.name().as_bytes()),
        ("HTTP_HOST", origin.host.as_bytes()),
        ("PHP_SELF", name),
        ("REPRISE_BOOT", b"1"),
    ] {
        head.add(&[variable.as_bytes()], &[value])?;
    }
    if origin.is_https {
        head.add(&[b"HTTPS"], &[b"on"])?;
    }
    if is_worker_mode {
        // The variable that code written for such a server looks for.
        head.add(&[b"FRANKENPHP_WORKER"], &[b"1"])?;
    }
    let size = head.finish()?;
    buffer.truncate(size);
    Ok(buffer)
}

/// A memory file with these bytes, to be attached to a message. Its position stays at the beginning.
pub fn file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("reprise", MemfdFlags::CLOEXEC)?;
    match rustix::io::pwrite(&file, bytes, 0)? {
        written if written == bytes.len() => Ok(file),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// With these, nobody can change a memory file any more.
pub const SEALS: SealFlags = SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

/// A memory file with these bytes, which nobody can change any more.
pub fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("reprise", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut at = 0;
    while at < bytes.len() {
        match rustix::io::pwrite(&file, &bytes[at..], at as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => at += count,
        }
    }
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

/// Reads up to `limit` bytes of a memory file that another process has made, without ever waiting for it.
pub fn read(file: &OwnedFd, limit: usize) -> io::Result<Vec<u8>> {
    // Only files in memory have seals. Pipes, and files of a file system that may hang, have none and are not read.
    rustix::fs::fcntl_get_seals(file)?;
    let mut bytes = vec![0; limit];
    let count = rustix::io::pread(file, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_request_is_complete() {
        let boot = |is_https, host| {
            let head = head(Path::new("/srv/www"), "/index.php", Origin { is_https, host }, false).unwrap();
            move |text: &str| head.windows(text.len()).any(|window| window == text.as_bytes())
        };
        let has = boot(false, "a.example");
        for text in ["SCRIPT_FILENAME\0/srv/www/index.php\0", "HTTP_HOST\0a.example\0", "REPRISE_BOOT\0"] {
            assert!(has(text), "{text:?}");
        }
        assert!(has("REQUEST_SCHEME\0http\0") && has("SERVER_PORT\x0080\0") && !has("HTTPS\0"));
        let has = boot(true, "a.example:8443");
        for text in ["HTTP_HOST\0a.example:8443\0", "SERVER_NAME\0a.example\0", "SERVER_PORT\08443\0", "HTTPS\0on\0"] {
            assert!(has(text), "{text:?}");
        }
    }

    #[test]
    fn only_memory_files_are_read() {
        assert_eq!(read(&file(b"/index.php").unwrap(), 6).unwrap(), b"/index");
        assert!(read(&rustix::pipe::pipe().unwrap().0, 6).is_err());
    }
}
