//! A server for the proxy to stand before: it does what the request's header `x-script` says, well-behaved or not, and
//! remembers what it was sent under the request's `x-mark`. Plain sockets and threads, so that it can break any rule.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use serde_json::json;

/// Pieces that large bodies are written in.
const PIECE: usize = 64 * 1024;
/// What is kept of a body.
const KEPT: usize = 64 * 1024;

/// One request as it came over the wire.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Request line and header lines.
    pub lines: Vec<String>,
    pub body: Vec<u8>,
    /// Bytes of the body, also of one that was not kept.
    pub length: u64,
    pub trailers: Vec<String>,
}

impl Seen {
    pub fn target(&self) -> &str {
        self.lines[0].split(' ').nth(1).unwrap_or_default()
    }

    /// All values of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.lines[1..].iter().filter_map(|line| line.split_once(':'));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }
}

#[derive(Default)]
struct State {
    seen: Mutex<Vec<Seen>>,
    /// Connections accepted so far, and those that are open.
    accepted: AtomicUsize,
    open: AtomicUsize,
    /// Bytes of bodies written so far.
    sent: AtomicU64,
}

pub struct Upstream {
    port: u16,
    state: Arc<State>,
}

impl Upstream {
    /// Serves as long as the test program lives.
    pub fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                state.accepted.fetch_add(1, Ordering::SeqCst);
                state.open.fetch_add(1, Ordering::SeqCst);
                let served = thread::Builder::new().stack_size(256 * 1024).spawn(move || {
                    // A client that goes away is part of the play.
                    let _ = serve(stream, &state);
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
                served.unwrap();
            }
        });
        Upstream { port, state }
    }

    /// The one that tests share which do not count its connections.
    pub fn shared() -> &'static Upstream {
        static SHARED: OnceLock<Upstream> = OnceLock::new();
        SHARED.get_or_init(Upstream::start)
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn authority(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The requests with this `x-mark` so far.
    pub fn seen(&self, mark: &str) -> Vec<Seen> {
        let seen = self.state.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.header("x-mark") == Some(mark)).cloned().collect()
    }

    /// Every request so far.
    pub fn all_seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    pub fn accepted(&self) -> usize {
        self.state.accepted.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// Connections that whoever asks has not let go, whether or not they are closed here.
    pub fn held(&self) -> usize {
        let remote = format!(":{:04X}", self.port);
        let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
        // ESTABLISHED and CLOSE_WAIT.
        let is_held = |line: &&str| {
            let mut columns = line.split_whitespace().skip(2);
            columns.next().is_some_and(|address| address.ends_with(&remote))
                && columns.next().is_some_and(|state| state == "01" || state == "08")
        };
        connections.lines().filter(is_held).count()
    }

    pub fn sent(&self) -> u64 {
        self.state.sent.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let mut has_answered = false;
    loop {
        let lines = read_lines(&mut reader)?;
        if lines.is_empty() {
            return Ok(());
        }
        let mut seen = Seen { lines, body: Vec::new(), length: 0, trailers: Vec::new() };
        let script = seen.header("x-script").unwrap_or("echo").to_owned();
        let (name, argument) = script.split_once('=').unwrap_or((&script, ""));
        let reads = !matches!(name, "refuse" | "silent-unread");
        if name == "continue" {
            out.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        if !reads {
            state.seen.lock().unwrap().push(seen.clone());
        } else {
            read_body(&mut reader, &mut seen)?;
            state.seen.lock().unwrap().push(seen.clone());
        }
        if name == "hang-up-kept" && has_answered {
            return Ok(());
        }
        let keep = play(name, argument, &seen, &mut reader, &mut out, state)?;
        has_answered = true;
        if !keep {
            return Ok(());
        }
    }
}

fn read_lines(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(Vec::new());
        }
        match line.trim_end_matches(['\r', '\n']) {
            "" => return Ok(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

fn read_body(reader: &mut BufReader<TcpStream>, seen: &mut Seen) -> io::Result<()> {
    if seen.header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            if size == 0 {
                seen.trailers = read_lines(reader)?;
                return Ok(());
            }
            take(reader, size, seen)?;
            reader.read_line(&mut String::new())?;
        }
    }
    let length = seen.header("content-length").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
    take(reader, length, seen)
}

fn take(reader: &mut BufReader<TcpStream>, length: u64, seen: &mut Seen) -> io::Result<()> {
    let mut rest = reader.take(length);
    let mut piece = vec![0; PIECE];
    loop {
        let read = rest.read(&mut piece)?;
        if read == 0 {
            return if rest.limit() == 0 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        seen.length += read as u64;
        let room = KEPT.saturating_sub(seen.body.len()).min(read);
        seen.body.extend_from_slice(&piece[..room]);
    }
}

/// Answers; whether the connection goes on.
fn play(
    name: &str,
    argument: &str,
    seen: &Seen,
    reader: &mut BufReader<TcpStream>,
    out: &mut TcpStream,
    state: &State,
) -> io::Result<bool> {
    let fixed = |text: &str| text.replace('\n', "\r\n").into_bytes();
    if name == "slow" {
        thread::sleep(Duration::from_millis(argument.parse().map_err(io::Error::other)?));
    }
    if name == "together" {
        let wanted: usize = argument.parse().map_err(io::Error::other)?;
        while state.accepted.load(Ordering::SeqCst) < wanted {
            thread::sleep(Duration::from_millis(10));
        }
    }
    match name {
        "slow" | "together" | "echo" | "continue" | "no-continue" | "drop-kept" | "hang-up-kept" => {
            let body = json!({"lines": seen.lines, "length": seen.length, "trailers": seen.trailers}).to_string();
            let length = body.len();
            let body = if seen.lines[0].starts_with("HEAD ") { String::new() } else { body };
            let head = format!("HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: {length}\n\n");
            out.write_all(&fixed(&head))?;
            out.write_all(body.as_bytes())?;
            return Ok(name != "drop-kept");
        }
        // The answer of one that is kept has to say its own end.
        "raw" | "raw-kept" | "raw-then-wait" => {
            out.write_all(argument.replace("\\r\\n", "\r\n").as_bytes())?;
            if name == "raw-then-wait" {
                wait_for_end(reader);
            }
            return Ok(name == "raw-kept");
        }
        "silent" | "silent-unread" => wait_for_end(reader),
        "refuse" => {
            out.write_all(&fixed("HTTP/1.1 413 Content Too Large\nContent-Length: 2\n\nno"))?;
            wait_for_end(reader);
        }
        "bytes" | "chunked-bytes" => {
            let length: u64 = argument.parse().map_err(io::Error::other)?;
            return stream_bytes(length, name == "chunked-bytes", out, state).map(|()| true);
        }
        "upgrade" => {
            let protocol = if argument.is_empty() { seen.header("upgrade").unwrap_or_default() } else { argument };
            out.write_all(&fixed(&format!(
                "HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: {protocol}\nX-Own: 1\n\n"
            )))?;
            io::copy(reader, out)?;
        }
        _ => out.write_all(&fixed("HTTP/1.1 500 Unknown Script\nContent-Length: 0\n\n"))?,
    }
    Ok(false)
}

fn wait_for_end(reader: &mut BufReader<TcpStream>) {
    let _ = io::copy(reader, &mut io::sink());
}

fn stream_bytes(length: u64, chunked: bool, out: &mut TcpStream, state: &State) -> io::Result<()> {
    let framing = if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {length}") };
    out.write_all(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n").as_bytes())?;
    let piece = vec![b'x'; PIECE];
    let mut left = length;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        if chunked {
            out.write_all(format!("{now:x}\r\n").as_bytes())?;
        }
        out.write_all(&piece[..now])?;
        if chunked {
            out.write_all(b"\r\n")?;
        }
        left -= now as u64;
        state.sent.fetch_add(now as u64, Ordering::SeqCst);
    }
    if chunked { out.write_all(b"0\r\n\r\n") } else { Ok(()) }
}
