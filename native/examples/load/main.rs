//! A load generator: connections that each send one request after the other, over HTTP/1.1 or gRPC, in one thread.
//!
//! `load HOST:PORT [--path PATH | --grpc /PACKAGE.SERVICE/METHOD] [--connections 16] [--seconds 5] [--warmup 1]
//! [--body FILE] [--header 'NAME: VALUE']... [--method POST] [--tls] [--json]`
//!
//! The body of a gRPC request is one message, without its prefix. An answer is a success where its status is 2xx, over
//! gRPC where `grpc-status` is 0; the others are counted by status, and are not part of the figures.

mod http;
mod rpc;
mod tls;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::io::AsRawFd;
use std::time::{Duration, Instant};

use vitrify_plane::sys::{Epoll, Event, READABLE, WRITABLE};

/// What is sent.
pub struct Request {
    pub host: String,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What bytes of a connection have come to.
pub enum Outcome {
    /// More are needed.
    More,
    /// An answer is whole: whether it is a success, its status, and whether the connection goes on.
    Answer { success: bool, status: u16, keep: bool },
    /// The connection cannot go on.
    Broken(&'static str),
}

/// A protocol's side of one connection.
pub trait Session {
    /// Write what a connection begins with.
    fn open(&mut self, out: &mut Vec<u8>);
    /// Write a request.
    fn begin(&mut self, out: &mut Vec<u8>);
    /// Take bytes.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Outcome;
}

struct Options {
    address: String,
    grpc: bool,
    connections: usize,
    seconds: f64,
    warmup: f64,
    json: bool,
    tls: bool,
    request: Request,
}

#[derive(Default)]
struct Figures {
    /// Nanoseconds of every success.
    latencies: Vec<u64>,
    failures: BTreeMap<String, u64>,
}

struct Connection<'a> {
    stream: tls::Stream<'a>,
    session: Box<dyn Session>,
    out: Vec<u8>,
    written: usize,
    begun: Instant,
    interest: u32,
}

impl<'a> Connection<'a> {
    fn new(options: &Options, client: Option<&'a tls::Client>) -> io::Result<Connection<'a>> {
        let socket = TcpStream::connect(&*options.address)?;
        socket.set_nodelay(true)?;
        let stream = tls::Stream::new(socket, client)?;
        let mut session: Box<dyn Session> = if options.grpc {
            Box::new(rpc::Session::new(&options.request))
        } else {
            Box::new(http::Session::new(&options.request))
        };
        let mut out = Vec::new();
        session.open(&mut out);
        session.begin(&mut out);
        Ok(Connection { stream, session, out, written: 0, begun: Instant::now(), interest: READABLE })
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Read and answer what has come. `Err` where the connection has ended, with the reason.
    fn turn(&mut self, scratch: &mut [u8], figures: &mut Figures) -> Result<(), String> {
        match self.stream.read(scratch) {
            Ok(0) => return Err("the connection was closed".to_string()),
            Ok(count) => match self.session.take(&scratch[..count], &mut self.out) {
                Outcome::More => {}
                Outcome::Broken(reason) => return Err(reason.to_string()),
                Outcome::Answer { success, status, keep } => {
                    let now = Instant::now();
                    if success {
                        figures.latencies.push((now - self.begun).as_nanos() as u64);
                    } else {
                        *figures.failures.entry(status.to_string()).or_default() += 1;
                    }
                    if !keep {
                        return Err(String::new());
                    }
                    self.begun = now;
                    self.session.begin(&mut self.out);
                }
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.kind().to_string()),
        }
        self.flush().map_err(|error| error.kind().to_string())
    }

    fn watch(&mut self, epoll: &Epoll, token: u64) -> io::Result<()> {
        let wants = if self.out.is_empty() { READABLE } else { READABLE | WRITABLE };
        if wants != self.interest {
            self.interest = wants;
            epoll.modify(self.stream.socket.as_raw_fd(), token, wants)?;
        }
        Ok(())
    }
}

/// Run for so long, and return what was counted after the warm-up, and its seconds.
fn run(options: &Options) -> io::Result<(Figures, f64)> {
    let epoll = Epoll::new()?;
    let sealing = if options.tls { Some(tls::Client::new(options.grpc)) } else { None };
    let client = sealing.as_ref();
    let mut connections = Vec::new();
    for token in 0..options.connections {
        let mut connection = Connection::new(options, client)?;
        connection.flush()?;
        epoll.add(connection.stream.socket.as_raw_fd(), token as u64, READABLE)?;
        connections.push(connection);
    }
    let (mut figures, mut scratch) = (Figures::default(), vec![0; 256 * 1024]);
    let mut events = [Event::NONE; 256];
    let mut start = Instant::now();
    let (mut warm, warmup) = (false, Duration::from_secs_f64(options.warmup));
    let length = Duration::from_secs_f64(options.seconds);
    loop {
        let passed = start.elapsed();
        if !warm && passed >= warmup {
            (warm, start, figures) = (true, Instant::now(), Figures::default());
        } else if warm && passed >= length {
            return Ok((figures, passed.as_secs_f64()));
        }
        let found = epoll.wait(&mut events, 100)?;
        for event in &events[..found] {
            let connection = &mut connections[event.token() as usize];
            if let Err(reason) = connection.turn(&mut scratch, &mut figures) {
                if !reason.is_empty() {
                    *figures.failures.entry(reason).or_default() += 1;
                }
                *connection = Connection::new(options, client)?;
                let _ = connection.flush();
                epoll.add(connection.stream.socket.as_raw_fd(), event.token(), READABLE)?;
            }
            connection.watch(&epoll, event.token())?;
        }
    }
}

fn report(options: &Options, mut figures: Figures, seconds: f64) {
    figures.latencies.sort_unstable();
    let count = figures.latencies.len();
    let at = |share: f64| {
        let place = ((count as f64 * share) as usize).min(count.saturating_sub(1));
        figures.latencies.get(place).map_or(0.0, |nanoseconds| *nanoseconds as f64 / 1e6)
    };
    let rate = count as f64 / seconds;
    let (p50, p90, p99, most) = (at(0.5), at(0.9), at(0.99), at(1.0));
    if options.json {
        let failures: Vec<String> =
            figures.failures.iter().map(|(what, count)| format!("\"{what}\": {count}")).collect();
        println!(
            "{{\"requests_per_second\": {rate:.1}, \"requests\": {count}, \"seconds\": {seconds:.3}, \"p50_ms\": {p50:.4}, \
             \"p90_ms\": {p90:.4}, \"p99_ms\": {p99:.4}, \"max_ms\": {most:.4}, \"failures\": {{{}}}}}",
            failures.join(", ")
        );
        return;
    }
    println!("{rate:.0} requests/s ({count} in {seconds:.2} s)");
    println!("p50 {p50:.3} ms, p90 {p90:.3} ms, p99 {p99:.3} ms, max {most:.3} ms");
    for (what, count) in &figures.failures {
        println!("failed: {count} x {what}");
    }
}

fn options() -> Result<Options, String> {
    let mut arguments = std::env::args().skip(1);
    let request = Request {
        host: String::new(),
        method: String::new(),
        path: "/".to_string(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    let address = String::new();
    let (grpc, json, tls) = (false, false, false);
    let mut found = Options { address, grpc, connections: 16, seconds: 5.0, warmup: 1.0, json, tls, request };
    while let Some(name) = arguments.next() {
        if name == "--json" || name == "--tls" {
            found.json |= name == "--json";
            found.tls |= name == "--tls";
            continue;
        }
        if !name.starts_with("--") {
            found.address = name;
            continue;
        }
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let wrong = |error: &dyn std::fmt::Display| format!("{name} {value}: {error}");
        match &*name {
            "--path" => found.request.path = value,
            "--grpc" => (found.grpc, found.request.path) = (true, value),
            "--connections" => found.connections = value.parse().map_err(|error| wrong(&error))?,
            "--seconds" => found.seconds = value.parse().map_err(|error| wrong(&error))?,
            "--warmup" => found.warmup = value.parse().map_err(|error| wrong(&error))?,
            "--body" => found.request.body = std::fs::read(&value).map_err(|error| wrong(&error))?,
            "--method" => found.request.method = value,
            "--header" => {
                let (name, value) = value.split_once(':').ok_or_else(|| wrong(&"expected NAME: VALUE"))?;
                found.request.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_string()));
            }
            _ => return Err(format!("{name} is no option")),
        }
    }
    if found.address.is_empty() {
        return Err("expected HOST:PORT".to_string());
    }
    if found.request.method.is_empty() {
        let post = found.grpc || !found.request.body.is_empty();
        found.request.method = if post { "POST" } else { "GET" }.to_string();
    }
    found.request.host = found.address.clone();
    Ok(found)
}

fn main() {
    let options = options().unwrap_or_else(|message| {
        eprintln!("load: {message}");
        std::process::exit(2);
    });
    match run(&options) {
        Ok((figures, seconds)) => report(&options, figures, seconds),
        Err(error) => {
            eprintln!("load: {}: {error}", options.address);
            std::process::exit(1);
        }
    }
}
