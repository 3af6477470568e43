//! A server that answers with what it is sent: for trying the front with real clients, and for its load tests.
//!
//! `echo [HTTP_PORT] [GRPC_PORT] [SECONDS]`; prints the ports, and drains after so many seconds (default: an hour), or
//! when its standard input ends. Paths say what is done:
//! `/stream` answers in pieces, `/later` from another thread, `/never` lets its reply fall, `/refuse` is not admitted,
//! `/panic` panics. Over gRPC methods whose name begins with `Stream` stream their requests, `Many` answers with three
//! messages, `Fail` with a status, `Hang` never.

use std::io::Read;
use std::sync::{Arc, Mutex};

use vitrify_plane::front;
use vitrify_plane::service::{Head, Inbound, Limits, Reply, Response, Service, Wire};

struct Echo {
    /// Calls that are never answered.
    hung: Mutex<Vec<Box<dyn Reply>>>,
}

fn http(status: u16, body: Vec<u8>) -> Response {
    Response::Http { status, headers: vec![("content-type".into(), "application/octet-stream".into())], body }
}

fn grpc(body: Vec<u8>) -> Response {
    Response::Grpc { code: 0, message: String::new(), body: Some(body) }
}

/// A client that has left needs nothing.
fn send(reply: &dyn Reply, response: Response) {
    let _ = reply.send(response);
}

impl Echo {
    fn http(&self, head: Head, body: Vec<u8>, reply: Box<dyn Reply>) {
        match &*head.path {
            "/stream" => {
                reply.send(Response::Begin { status: 200, headers: Vec::new() });
                body.chunks(1000).for_each(|piece| send(&*reply, Response::Piece(piece.to_vec())));
                reply.send(Response::End { code: 0, message: String::new() });
            }
            "/later" => {
                std::thread::spawn(move || reply.send(http(200, body)));
            }
            "/never" => {}
            "/panic" => panic!("as was asked"),
            "/head" => send(&*reply, http(200, format!("{head:?}").into_bytes())),
            _ => send(&*reply, http(200, body)),
        }
    }
}

impl Service for Echo {
    fn admit(&self, head: &Head) -> Result<usize, Response> {
        match (head.path.ends_with("/refuse"), head.wire) {
            (true, Wire::Http) => Err(http(429, b"busy".to_vec())),
            (true, Wire::Grpc) => Err(Response::Grpc { code: 8, message: "busy".into(), body: None }),
            _ => Ok(64 << 20),
        }
    }

    fn streams(&self, path: &str) -> bool {
        path.rsplit('/').next().map_or(false, |method| method.starts_with("Stream"))
    }

    fn call(&self, head: Head, body: Vec<u8>, reply: Box<dyn Reply>) {
        if head.wire == Wire::Http {
            return self.http(head, body, reply);
        }
        match head.path.rsplit('/').next().unwrap_or("") {
            "Many" => {
                (0..3).for_each(|_| send(&*reply, Response::Piece(body.clone())));
                reply.send(Response::End { code: 0, message: String::new() });
            }
            "Fail" => send(&*reply, Response::Grpc { code: 9, message: "no: \u{e9}%\n".into(), body: None }),
            "Hang" => self.hung.lock().unwrap().push(reply),
            "Gone" => {
                let mut hung = self.hung.lock().unwrap();
                let gone = hung.iter().filter(|reply| reply.gone()).count();
                hung.retain(|reply| !reply.gone());
                reply.send(grpc(gone.to_string().into_bytes()));
            }
            "Later" => {
                std::thread::spawn(move || reply.send(grpc(body)));
            }
            "Metadata" => send(&*reply, grpc(format!("{:?}", head.headers).into_bytes())),
            "never" => {}
            _ => send(&*reply, grpc(body)),
        }
    }

    fn open(&self, _head: Head, reply: Box<dyn Reply>) -> Box<dyn Inbound> {
        Box::new(Stream(reply))
    }
}

struct Stream(Box<dyn Reply>);

impl Inbound for Stream {
    fn message(&self, body: Vec<u8>) {
        self.0.send(Response::Piece(body));
    }

    fn end(&self, orderly: bool) {
        if orderly {
            self.0.send(Response::End { code: 0, message: String::new() });
        }
    }
}

fn main() -> std::io::Result<()> {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let port = |place: usize| Some(numbers.get(place).copied().unwrap_or(0) as u16);
    let limits = Limits {
        connections: 1024,
        head_bytes: 64 * 1024,
        headers: 128,
        head_seconds: 10.0,
        body_seconds: 60.0,
        idle_seconds: 75.0,
        send_seconds: 30.0,
        send_bytes: 64 << 20,
        streams: 256,
    };
    let echo = Arc::new(Echo { hung: Mutex::new(Vec::new()) });
    let front = front::start("127.0.0.1", port(0), port(1), limits, None, echo)?;
    println!("{} {}", front.ports().0, front.ports().1);
    let (end, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    let _ = ended.recv_timeout(std::time::Duration::from_secs(numbers.get(2).copied().unwrap_or(3600)));
    println!("drained: {}", front.drain(10.0));
    front.stop();
    Ok(())
}
