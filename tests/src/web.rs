//! A web server on this machine, and a network whose names lead where a test says.
//!
//! Owns the listener, what it was sent and its scripted answers. Refuses to be a good server: a path asks for each
//! kind of misbehaviour.
//!
//! **Invariant:** whatever reaches the server is counted, so that a refused request can be told from one that failed.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use t2m_core::dispatch::BoxFuture;
use t2m_sandbox::Network;

/// A server that lives as long as the process.
pub struct WebServer {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl WebServer {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// If this machine has no loopback.
    pub fn start() -> io::Result<WebServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &seen));
            }
        });
        Ok(WebServer { address, seen })
    }

    /// Heads and bodies of what it was sent since it was last asked.
    pub fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let head = loop {
        let count = stream.read(&mut buffer).ok()?;
        bytes.extend(buffer.get(..count)?);
        if let Some(at) = find(&bytes, b"\r\n\r\n") {
            break at + 4;
        }
        // The end, or the beginning of TLS.
        if count == 0 || bytes.first() == Some(&0x16) {
            note(seen, &bytes);
            return None;
        }
    };
    let text = String::from_utf8_lossy(bytes.get(..head)?).into_owned();
    if text.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        while !bytes.ends_with(b"0\r\n\r\n") {
            let count = stream.read(&mut buffer).ok()?;
            bytes.extend(buffer.get(..count)?);
            if count == 0 {
                break;
            }
        }
    }
    note(seen, &bytes);
    let path = text.split(' ').nth(1)?.to_owned();
    answer(&mut stream, &path, &text).ok()
}

fn answer(stream: &mut TcpStream, path: &str, head: &str) -> io::Result<()> {
    let plain = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    if let Some(to) = path.strip_prefix("/redirect?") {
        return write!(stream, "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
    }
    if let Some(page) = path.strip_prefix("/page?") {
        let body = "<html><head><title>T</title><script>x</script></head><body><h1>Title</h1><p>Some <b>bold</b> text.</p></body></html>";
        let kind = if page == "html" { "text/html; charset=utf-8" } else { page };
        let length = body.len();
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
    }
    match path.split('?').next().unwrap_or_default() {
        // Says back what it was sent, in small pieces, so that any text lies across two of them.
        "/echo" => {
            let said = header(head, "authorization");
            write!(stream, "HTTP/1.1 200 OK\r\nx-echo: {said}\r\ntransfer-encoding: chunked\r\n\r\n")?;
            for piece in head.as_bytes().chunks(7) {
                write!(stream, "{:x}\r\n", piece.len())?;
                stream.write_all(piece)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
        "/big" => {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
        "/headers" => {
            write!(stream, "HTTP/1.1 200 OK\r\n")?;
            loop {
                stream.write_all(b"x-more: 0123456789012345678901234567890123456789\r\n")?;
            }
        }
        "/silent" => {
            // Until the other side goes.
            let _ = stream.set_read_timeout(None);
            stream.read_to_end(&mut Vec::new()).map(|_| ())
        }
        "/slow" => {
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nx")?;
            let _ = stream.set_read_timeout(None);
            stream.read_to_end(&mut Vec::new()).map(|_| ())
        }
        "/upgrade" => {
            write!(stream, "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")
        }
        "/garbage" => stream.write_all(b"not HTTP at all\r\n\r\n"),
        _ => stream.write_all(plain("hello").as_bytes()),
    }
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
    line.and_then(|line| line.split_once(": ")).map_or("", |(_, value)| value)
}

fn note(seen: &Mutex<Vec<String>>, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(text);
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Names that lead to other addresses each time they are looked up, and connections that all go to one server.
pub struct ScriptedNetwork {
    /// Where every connection goes, whatever its address.
    pub server: SocketAddr,
    /// What each lookup gives; the last one again and again.
    pub answers: Vec<Vec<IpAddr>>,
    /// Names that were looked up.
    pub lookups: Mutex<Vec<String>>,
    /// Addresses that were connected to.
    pub dialled: Mutex<Vec<SocketAddr>>,
}

impl ScriptedNetwork {
    /// A network whose names lead to these addresses, one answer for each lookup.
    pub fn new(server: SocketAddr, answers: &[&[&str]]) -> ScriptedNetwork {
        let parse = |text: &&str| text.parse().ok();
        let answers = answers.iter().map(|list| list.iter().filter_map(parse).collect()).collect();
        ScriptedNetwork { server, answers, lookups: Mutex::default(), dialled: Mutex::default() }
    }
}

impl Network for ScriptedNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut lookups = self.lookups.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = self.answers.get(lookups.len()).or(self.answers.last()).cloned().unwrap_or_default();
        lookups.push(name.to_owned());
        Box::pin(async move { Ok(answer) })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<tokio::net::TcpStream>> {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        Box::pin(tokio::net::TcpStream::connect(self.server))
    }
}
