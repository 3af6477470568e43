//! A house that does what the path says, and clients that see every byte.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vitrify_plane::front;
use vitrify_plane::http2::frame::{self, Frame};
use vitrify_plane::http2::hpack::Decoder;
use vitrify_plane::service::{Front, Head, Inbound, Limits, Reply, Response, Service, Wire};

/// However loaded the machine is.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn limits() -> Limits {
    Limits {
        connections: 64,
        head_bytes: 4096,
        headers: 32,
        head_seconds: 30.0,
        body_seconds: 30.0,
        idle_seconds: 30.0,
        send_seconds: 30.0,
        send_bytes: 4 << 20,
        streams: 16,
    }
}

/// A call that is not answered yet.
pub type Held = (Vec<u8>, Wire, Box<dyn Reply>);

/// Calls to `/hold` wait here until they are let go.
#[derive(Default)]
pub struct House {
    pub held: Mutex<Vec<Held>>,
    pub ends: Arc<Mutex<Vec<bool>>>,
}

fn answer(wire: Wire, body: Vec<u8>) -> Response {
    match wire {
        Wire::Http => Response::Http { status: 200, headers: vec![("x-a".into(), "b".into())], body },
        Wire::Grpc => Response::Grpc { code: 0, message: String::new(), body: Some(body) },
    }
}

impl House {
    /// Answer everything that is held, the last first, from this thread.
    pub fn release(&self) {
        let _cork = front::Cork::new();
        for (body, wire, reply) in self.held.lock().unwrap().drain(..).rev() {
            reply.send(answer(wire, body));
        }
    }

    pub fn wait_for_held(&self, count: usize) {
        until(|| self.held.lock().unwrap().len() == count);
    }
}

pub struct Shared(pub Arc<House>);

impl Service for Shared {
    fn admit(&self, head: &Head) -> Result<usize, Response> {
        if head.path.ends_with("/refuse") {
            return Err(Response::Http { status: 429, headers: Vec::new(), body: b"busy".to_vec() });
        }
        Ok(if head.path.ends_with("/large") { 64 << 20 } else { 100_000 })
    }

    fn streams(&self, path: &str) -> bool {
        path.starts_with("/s.")
    }

    fn call(&self, head: Head, body: Vec<u8>, reply: Box<dyn Reply>) {
        let name = head.path.rsplit('/').next().unwrap_or("");
        match name {
            "hold" => self.0.held.lock().unwrap().push((body, head.wire, reply)),
            "pieces" => {
                reply.send(Response::Begin { status: 200, headers: Vec::new() });
                body.chunks(3).for_each(|piece| {
                    reply.send(Response::Piece(piece.to_vec()));
                });
                reply.send(Response::End { code: 0, message: String::new() });
            }
            "broken" => {
                reply.send(Response::Begin { status: 200, headers: Vec::new() });
                reply.send(Response::Piece(b"half".to_vec()));
                reply.send(Response::End { code: 13, message: "failed".into() });
            }
            "megabytes" => {
                reply.send(answer(head.wire, vec![7; 20 << 20]));
            }
            "nothing" => {
                reply.send(Response::Http { status: 204, headers: Vec::new(), body: b"ignored".to_vec() });
            }
            "drop" => {}
            "panic" => panic!("as the test asked"),
            "status" => {
                reply.send(Response::Grpc { code: 9, message: "no: \u{e9}\n".into(), body: None });
            }
            _ => {
                reply.send(answer(head.wire, body));
            }
        }
    }

    fn open(&self, _head: Head, reply: Box<dyn Reply>) -> Box<dyn Inbound> {
        Box::new(Pieces(reply, Arc::clone(&self.0.ends)))
    }
}

struct Pieces(Box<dyn Reply>, Arc<Mutex<Vec<bool>>>);

impl Inbound for Pieces {
    fn message(&self, body: Vec<u8>) {
        self.0.send(Response::Piece(body));
    }

    fn end(&self, orderly: bool) {
        self.1.lock().unwrap().push(orderly);
        self.0.send(Response::End { code: 0, message: String::new() });
    }
}

/// A running front and its house.
pub struct Server {
    pub front: Arc<dyn Front>,
    pub house: Arc<House>,
}

pub fn serve(limits: Limits) -> Server {
    let house = Arc::new(House::default());
    let service = Arc::new(Shared(Arc::clone(&house)));
    let front = front::start("127.0.0.1", Some(0), Some(0), limits, None, service).expect("the front starts");
    Server { front, house }
}

impl Server {
    pub fn http(&self) -> TcpStream {
        connect(self.front.ports().0)
    }

    pub fn grpc(&self) -> Client {
        Client::new(connect(self.front.ports().1))
    }

    /// Everything that is answered to these bytes, until the connection's end.
    pub fn talk(&self, bytes: &[u8]) -> String {
        let mut socket = self.http();
        // The server may end before it has read all.
        let _ = socket.write_all(bytes);
        all(&mut socket)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.front.stop();
    }
}

pub fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Everything until the connection's end, however it ends.
pub fn all(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65536];
    loop {
        match socket.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) => {
                assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "nothing came: {bytes:?}");
                break;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Wait until something is so.
pub fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "it never came to be");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A client of HTTP/2 that sees every frame.
pub struct Client {
    pub socket: TcpStream,
    decoder: Decoder,
}

/// An answer over gRPC.
#[derive(Debug, Default)]
pub struct Answer {
    pub headers: Vec<(String, String)>,
    pub data: Vec<u8>,
    /// The code of RST_STREAM, if there was one.
    pub reset: Option<u32>,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }
}

impl Client {
    /// Say hello, with a window that lets everything through.
    pub fn new(socket: TcpStream) -> Client {
        let mut client = Client { socket, decoder: Decoder::new() };
        let mut bytes = frame::PREFACE.to_vec();
        frame::settings(&mut bytes, &[(4, frame::MOST)]);
        frame::number(&mut bytes, frame::WINDOW, 0, frame::MOST - 65_535);
        client.write(&bytes);
        client
    }

    pub fn write(&mut self, bytes: &[u8]) {
        // The server may have ended.
        let _ = self.socket.write_all(bytes);
    }

    /// Open a stream.
    pub fn headers(&mut self, stream: u32, path: &str, flags: u8) {
        let mut block = vec![0x83, 0x86];
        for (name, value) in [(":path", path), ("content-type", "application/grpc"), ("te", "trailers")] {
            block.extend_from_slice(&[0, name.len() as u8]);
            block.extend_from_slice(name.as_bytes());
            block.push(value.len() as u8);
            block.extend_from_slice(value.as_bytes());
        }
        self.frame(frame::HEADERS, flags | frame::END_HEADERS, stream, &block);
    }

    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        frame::head(&mut bytes, payload.len(), kind, flags, stream);
        bytes.extend_from_slice(payload);
        self.write(&bytes);
    }

    /// Send one message on a stream, as its last, within the first windows.
    pub fn message(&mut self, stream: u32, body: &[u8], flags: u8) {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(body);
        self.frame(frame::DATA, flags, stream, &bytes);
    }

    /// The next frame; `None` at the connection's end.
    pub fn next(&mut self) -> Option<(Frame, Vec<u8>)> {
        let mut head = [0; frame::HEAD_BYTES];
        if let Err(error) = self.socket.read_exact(&mut head) {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no frame came");
            return None;
        }
        let frame = Frame::parse(&head)?;
        let mut payload = vec![0; frame.length];
        self.socket.read_exact(&mut payload).ok()?;
        Some((frame, payload))
    }

    /// The next frame of a kind.
    pub fn find(&mut self, kind: u8) -> Option<(Frame, Vec<u8>)> {
        loop {
            let (frame, payload) = self.next()?;
            if frame.kind == kind {
                return Some((frame, payload));
            }
        }
    }

    /// Read until a stream has ended.
    pub fn answer(&mut self, stream: u32) -> Answer {
        let mut answer = Answer::default();
        loop {
            let (frame, payload) = self.next().expect("the connection goes on");
            if frame.kind == frame::HEADERS {
                let list = self.decoder.decode(&payload, 1 << 20, 100).expect("the block is valid").headers;
                if frame.stream == stream {
                    answer.headers.extend(list);
                }
            } else if frame.kind == frame::DATA && frame.stream == stream {
                answer.data.extend_from_slice(&payload);
            } else if frame.kind == frame::RESET && frame.stream == stream {
                answer.reset = Some(frame::word(&payload));
                return answer;
            }
            if frame.stream == stream && frame.has(frame::END_STREAM) && frame.kind <= frame::HEADERS {
                return answer;
            }
        }
    }

    /// The code of the GOAWAY that ends the connection.
    pub fn goaway(&mut self) -> u32 {
        let (_, payload) = self.find(frame::GOAWAY).expect("GOAWAY comes before the end");
        frame::word(&payload[4..])
    }
}
