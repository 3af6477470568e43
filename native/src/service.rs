//! What the front (sockets, HTTP, gRPC) and the house behind it (lanes, Python) know of each other.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::tls::Tls;

/// What a request is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Http,
    Grpc,
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: IpAddr,
    /// What its certificate calls it, where it has shown one that the clients' authority has signed.
    pub name: Option<Arc<str>>,
}

impl From<[u8; 4]> for Peer {
    fn from(address: [u8; 4]) -> Peer {
        Peer { address: address.into(), name: None }
    }
}

/// A request's head. Names of headers are lower-case; the path is as it was sent, still percent-encoded, no query.
#[derive(Debug, Clone)]
pub struct Head {
    pub wire: Wire,
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub peer: Peer,
    pub arrived: Instant,
}

impl Head {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// An answer, or a piece of one.
#[derive(Debug)]
pub enum Response {
    /// A whole answer over HTTP. `content-length` is set by the front.
    Http { status: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// A whole answer over gRPC: none or one message, then the status.
    Grpc { code: u8, message: String, body: Option<Vec<u8>> },
    /// The head of a streamed answer over HTTP; pieces follow.
    Begin { status: u16, headers: Vec<(String, String)> },
    /// A piece: bytes of a body over HTTP, one whole message over gRPC.
    Piece(Vec<u8>),
    /// Fields for the end of an answer over gRPC (its trailing metadata); said before the end, and only over gRPC.
    Trailers(Vec<(String, String)>),
    /// The end of a streamed answer; over gRPC with its status.
    End { code: u8, message: String },
}

/// Where an answer goes. It may be used from any thread; if the client has left, it goes nowhere.
pub trait Reply: Send {
    /// Send a whole answer, or a piece. Never blocks. False where the client has left.
    fn send(&self, response: Response) -> bool;
    /// Whether the client has left.
    fn gone(&self) -> bool;
}

/// The house behind the front. Every method is called on the front's thread and must not block.
pub trait Service: Send + Sync + 'static {
    /// Look at a head before its body is read: `Ok` with the most bytes of the body, or the answer that refuses it.
    fn admit(&self, head: &Head) -> Result<usize, Response>;
    /// Whether a gRPC method streams its requests.
    fn streams(&self, path: &str) -> bool;
    /// Answer a request whose body (over gRPC: whose one message) has come whole.
    fn call(&self, head: Head, body: Vec<u8>, reply: Box<dyn Reply>);
    /// Begin a method that streams its requests; each message is given to what is returned.
    fn open(&self, head: Head, reply: Box<dyn Reply>) -> Box<dyn Inbound>;
}

/// What takes the messages of one streaming call.
pub trait Inbound: Send {
    fn message(&self, body: Vec<u8>);
    /// The client has ended its side (`true`), or has left.
    fn end(&self, orderly: bool);
}

/// What bounds the front.
#[derive(Debug, Clone)]
pub struct Limits {
    pub connections: usize,
    pub head_bytes: usize,
    pub headers: usize,
    pub head_seconds: f64,
    pub body_seconds: f64,
    pub idle_seconds: f64,
    /// For a client to take an answer; and the most bytes that wait for it beside its largest answer, if it takes
    /// nothing meanwhile. (If it does, four times as many.)
    pub send_seconds: f64,
    pub send_bytes: usize,
    /// At a time, a connection over HTTP/2.
    pub streams: u32,
}

/// A running front.
pub trait Front: Send + Sync {
    /// The ports that are listened on: HTTP/1.1 and gRPC (0 for none).
    fn ports(&self) -> (u16, u16);
    /// Accept no connection more and no request more (GOAWAY, `connection: close`); true when all accepted requests
    /// were answered within the seconds. May block.
    fn drain(&self, seconds: f64) -> bool;
    /// Close everything.
    fn stop(&self);
}

/// How the front is made: `front::start`.
pub type Start = fn(
    host: &str,
    http: Option<u16>,
    grpc: Option<u16>,
    limits: Limits,
    tls: Option<Tls>,
    service: Arc<dyn Service>,
) -> std::io::Result<Arc<dyn Front>>;
