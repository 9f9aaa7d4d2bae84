//! Stores that nodes share, and the way to them, which can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

pub use tests::backends::Redis;

/// What a way does with what comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Passes = 0,
    /// Connections end, and new ones are refused at once.
    Breaks = 1,
    /// Nothing comes through, and nobody is told.
    Swallows = 2,
    /// The store's responses are rubbish.
    Garbles = 3,
}

/// A way to a store.
pub struct Way {
    pub port: u16,
    does: Arc<AtomicU8>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    pub fn to(port: u16) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = Way { port: listener.local_addr().unwrap().port(), does: Arc::default(), open: Arc::default() };
        let (does, open) = (way.does.clone(), way.open.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if does.load(Ordering::SeqCst) == Does::Breaks as u8 {
                    continue;
                }
                let Ok(store) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                client.set_nodelay(true).unwrap();
                store.set_nodelay(true).unwrap();
                open.lock().unwrap().extend([client.try_clone().unwrap(), store.try_clone().unwrap()]);
                let ends = [(client.try_clone().unwrap(), store.try_clone().unwrap(), false), (store, client, true)];
                for (from, to, is_response) in ends {
                    let does = does.clone();
                    thread::spawn(move || pass(from, to, is_response, &does));
                }
            }
        });
        way
    }

    pub fn now(&self, does: Does) {
        self.does.store(does as u8, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap();
        // What swallowed bytes has lost them for ever, so its connections do not go on.
        if does != Does::Swallows {
            open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
    }

    pub fn url(&self) -> String {
        format!("valkey://127.0.0.1:{}", self.port)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_response: bool, does: &AtomicU8) {
    let mut bytes = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        match does.load(Ordering::SeqCst) {
            2 => continue,
            3 if is_response => {
                bytes[..count].iter_mut().enumerate().for_each(|(at, byte)| *byte = b"\0$*9\r\n:x"[at % 8])
            }
            _ => {}
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
