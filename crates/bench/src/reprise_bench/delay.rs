//! Passes connections on to a server, each byte after a while: a server that is a round trip away, for `bench/compare --database-delay`.
//! Two threads for each direction: one receives, the other sends when the time has come.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::{Code, Failure};

/// What is given on the command line.
#[derive(Args)]
pub struct Options {
    /// Where clients connect to
    listen: SocketAddr,
    /// The server
    server: SocketAddr,
    /// Of a round trip, in microseconds: half of it each way
    microseconds: u64,
}

/// Runs until it is ended.
pub fn run(options: &Options) -> Result<(), Failure> {
    let failed = |why: std::io::Error| Failure::new(Code::NotMeasured, options.listen.to_string(), why);
    let listener = TcpListener::bind(options.listen).map_err(failed)?;
    let way = Duration::from_micros(options.microseconds / 2);
    for client in listener.incoming() {
        let (client, server) = (client.map_err(failed)?, options.server);
        thread::spawn(move || {
            // The client is connected at once. By a network it would be after a round trip, and the server half a one later.
            thread::sleep(3 * way);
            // A server that is gone: the client's connection is closed.
            if let Ok(server) = TcpStream::connect(server) {
                let _ = pass(&client, &server, way).and_then(|()| pass(&server, &client, way));
            }
        });
    }
    Ok(())
}

/// One direction, in threads of its own.
fn pass(from: &TcpStream, to: &TcpStream, way: Duration) -> std::io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    to.set_nodelay(true)?;
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut bytes = vec![0; 65536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let part = bytes.get(..count).unwrap_or_default().to_vec();
            if sender.send((Instant::now() + way, part)).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, part) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&part).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    Ok(())
}
