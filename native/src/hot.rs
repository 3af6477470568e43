//! The hot path: requests for inference that are decoded, batched and answered without Python in between.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::access::Line;
use crate::batch::Slice;
use crate::client::Slot;
use crate::fault::{Fault, Kind};
use crate::house::House;
use crate::infer::{Decoded, Form, Infer, Wanted};
use crate::lane::Lane;
use crate::lane_job::{lock, Answer, Job, Terms, Times};
use crate::lane_spec::Fit;
use crate::service::{Head, Reply, Response, Wire};
use crate::traces::Trace;
use crate::{oip_grpc, oip_rest};

/// The method of gRPC that is hot.
pub const METHOD: &str = "/inference.GRPCInferenceService/ModelInfer";
/// What sticky assignment goes by.
const KEY: &str = "x-vitrify-key";
/// Also when a lane is replaced at the worst moment, and again: then the next is there.
const ATTEMPTS: usize = 8;

/// A request that has come whole.
pub struct Coming {
    pub head: Head,
    pub body: Vec<u8>,
    pub reply: Box<dyn Reply>,
    /// Its name in logs and in the header `x-request-id`.
    pub request: String,
    /// Who asks; empty for nobody in particular.
    pub client: String,
    pub slot: Option<Slot>,
    /// None where there are no traces.
    pub trace: Option<Box<Trace>>,
}

/// Whether a request could be hot. Over HTTP: for which model and version, the latter empty for none.
pub fn target(head: &Head) -> Option<(String, String)> {
    if head.wire == Wire::Grpc {
        return if head.path == METHOD { Some((String::new(), String::new())) } else { None };
    }
    let path = head.path.strip_prefix("/v2/models/")?.strip_suffix("/infer")?;
    if head.method != "POST" || path.contains('%') {
        return None;
    }
    let (model, version) = match path.split_once("/versions/") {
        Some((model, version)) if !version.is_empty() => (model, version),
        Some(_) => return None,
        None => (path, ""),
    };
    // A name may have slashes; where that could be read in two ways, Python's router decides.
    if model.split('/').any(|part| matches!(part, "" | "." | "..")) || version.contains('/') {
        return None;
    }
    Some((model.to_owned(), version.to_owned()))
}

/// Answer a request by a lane, or hand it to Python.
pub fn run(house: &Arc<House>, coming: Coming, model: &str, version: &str) {
    let mut coming = coming;
    for _ in 0..ATTEMPTS {
        match attempt(house, coming, model, version) {
            Some(again) => coming = again,
            None => return,
        }
    }
    house.refuse(coming, &Fault::new(Kind::Unavailable, "the model is being replaced"), false);
}

/// The request comes back where its lane was closed just then.
fn attempt(house: &Arc<House>, coming: Coming, model: &str, version: &str) -> Option<Coming> {
    let decoded = match coming.head.wire {
        Wire::Http => oip_rest::decode(model, version, &coming.head, &coming.body),
        Wire::Grpc => oip_grpc::decode(&coming.head, &coming.body),
    };
    let mut infer = match decoded {
        Ok(Decoded::Infer(infer)) => infer,
        Ok(Decoded::Unusual) => return general(house, coming),
        Err(fault) => {
            if let Some(lane) = house.any(model) {
                lane.refused(fault.kind);
            }
            return refuse(house, coming, &fault);
        }
    };
    let mut coming = coming;
    let lane = match find(house, &mut coming, &infer) {
        Some(lane) => lane,
        None => return general(house, coming),
    };
    let (inputs, outputs) = match lane.spec.fit(&mut infer) {
        Ok(Fit::Here { inputs, outputs, .. }) => (inputs, outputs),
        Ok(Fit::Python) => return general(house, coming),
        Err(fault) => {
            lane.refused(fault.kind);
            return refuse(house, coming, &fault);
        }
    };
    let Coming { head, body, reply, request, client, slot, trace } = coming;
    let admitted = head.arrived;
    let patience = if infer.timeout_us > 0 { Duration::from_micros(infer.timeout_us) } else { lane.spec.seconds };
    let deadline = admitted.checked_add(patience).unwrap_or(admitted + Duration::from_secs(3_000_000_000));
    let terms = Terms { id: infer.id, client: client.clone(), outputs, priority: infer.priority, admitted, deadline };
    let (house, form, wanted) = (house.clone(), infer.form, infer.wanted);
    let (reply, slot) = (Mutex::new(reply), Mutex::new(slot));
    let received = body.len();
    let sent = Arc::new(Sent { house, lane: lane.clone(), form, wanted, reply, request, slot, received, trace });
    let job = Arc::new(Job::new(inputs, terms, Box::new(Sender(sent.clone()))));
    let refused = lane.submit(&job).err()?;
    let answer = job.claim()?;
    if !refused.closed {
        answer.done(&job, Err(refused.fault), Times::default());
        return None;
    }
    drop(answer);
    let Sent { reply, request, slot, trace, .. } = Arc::try_unwrap(sent).ok()?;
    let reply = reply.into_inner().unwrap_or_else(PoisonError::into_inner);
    let slot = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
    Some(Coming { head, body, reply, request, client, slot, trace })
}

fn general(house: &House, coming: Coming) -> Option<Coming> {
    house.general(coming);
    None
}

fn refuse(house: &House, coming: Coming, fault: &Fault) -> Option<Coming> {
    house.refuse(coming, fault, false);
    None
}

/// The lane of the version that was asked for, or that the routes choose.
fn find(house: &House, coming: &mut Coming, infer: &Infer) -> Option<Arc<Lane>> {
    if !infer.version.is_empty() {
        return house.lane(&infer.model, &infer.version);
    }
    let given = coming.head.header(KEY).map(str::to_owned);
    let key = given.clone().unwrap_or_else(|| house.name());
    match house.route(&infer.model, &key) {
        None => house.any(&infer.model),
        Some(version) => {
            let lane = house.lane(&infer.model, &version);
            if lane.is_none() && given.is_none() {
                // Python draws too: by the same key it comes to the same version.
                coming.head.headers.push((KEY.to_owned(), key));
            }
            lane
        }
    }
}

/// Where the answer of a hot request goes.
struct Sent {
    house: Arc<House>,
    lane: Arc<Lane>,
    form: Form,
    wanted: Vec<Wanted>,
    reply: Mutex<Box<dyn Reply>>,
    request: String,
    slot: Mutex<Option<Slot>>,
    /// Bytes of its body.
    received: usize,
    trace: Option<Box<Trace>>,
}

struct Sender(Arc<Sent>);

impl Sent {
    fn encode(&self, job: &Job, slices: &[Slice]) -> Result<Response, Fault> {
        let spec = &self.lane.spec;
        if self.form == Form::Grpc {
            let body = oip_grpc::encode(&spec.model, &spec.version, &job.id, &spec.digest, slices);
            return Ok(Response::Grpc { code: 0, message: String::new(), body: Some(body) });
        }
        let (headers, body) =
            oip_rest::encode(&spec.model, &spec.version, &job.id, &spec.digest, slices, &self.wanted, self.form)?;
        Ok(Response::Http { status: 200, headers, body })
    }

    fn tell(&self, job: &Job, response: &Response, times: Times, failed: Option<Kind>) {
        let (protocol, status, bytes) = measured(response);
        let wire = if self.form == Form::Grpc { Wire::Grpc } else { Wire::Http };
        let spec = &self.lane.spec;
        let line = Line {
            id: &self.request,
            client: &job.client,
            protocol,
            route: &self.house.hot_route(wire),
            model: &spec.model,
            version: &spec.version,
            digest: &spec.digest,
            status,
            rows: job.rows,
            queued: times.queued,
            computed: times.computed,
            total: Instant::now().saturating_duration_since(job.admitted),
            bytes,
            trace: self.trace.as_ref().map_or("", |trace| &trace.id),
        };
        self.house.ended(&line, self.received, self.trace.as_deref(), failed);
    }
}

impl Answer for Sender {
    fn done(self: Box<Self>, job: &Job, result: Result<Vec<Slice>, Fault>, times: Times) -> Option<Kind> {
        let sent = &self.0;
        let wire = if sent.form == Form::Grpc { Wire::Grpc } else { Wire::Http };
        let mut retry = 0;
        let (mut response, failed) = match result.and_then(|slices| sent.encode(job, &slices)) {
            Ok(response) => (response, None),
            Err(fault) => {
                retry = wait(&fault);
                (said(wire, &fault), Some(fault.kind))
            }
        };
        name(&mut response, &sent.request);
        sent.tell(job, &response, times, failed);
        // The client may ask again as soon as it has its answer.
        drop(lock(&sent.slot).take());
        let reply = lock(&sent.reply);
        if wire == Wire::Grpc {
            reply.send(trailers(&sent.request, retry));
        }
        reply.send(response);
        failed
    }

    fn gone(&self) -> bool {
        lock(&self.0.reply).gone()
    }
}

/// What the log says of an answer: protocol, status and bytes.
pub fn measured(response: &Response) -> (&'static str, u16, usize) {
    match response {
        Response::Http { status, body, .. } => ("rest", *status, body.len()),
        Response::Grpc { code, body, .. } => ("grpc", u16::from(*code), body.as_ref().map_or(0, Vec::len)),
        Response::Begin { status, .. } => ("rest", *status, 0),
        Response::Piece(body) => ("", 0, body.len()),
        Response::Trailers(_) => ("grpc", 0, 0),
        Response::End { code, .. } => ("grpc", u16::from(*code), 0),
    }
}

/// What is said with the end of an answer over gRPC: the request's name, and seconds to wait, where there are any.
pub fn trailers(request: &str, retry_after: u32) -> Response {
    let mut fields = vec![("x-request-id".to_owned(), request.to_owned())];
    if retry_after > 0 {
        fields.push(("retry-after".to_owned(), retry_after.to_string()));
    }
    Response::Trailers(fields)
}

/// Seconds that a fault asks its client to wait; 0 for none.
pub fn wait(fault: &Fault) -> u32 {
    if fault.kind == Kind::Busy {
        fault.retry_after
    } else {
        0
    }
}

/// Refuse a request: a fault as the wire has it, with the request's name.
pub fn refuse_by(reply: &dyn Reply, wire: Wire, fault: &Fault, request: &str) -> Response {
    let mut response = said(wire, fault);
    name(&mut response, request);
    if wire == Wire::Grpc {
        reply.send(trailers(request, wait(fault)));
    }
    response
}

/// A fault as the wire has it.
pub fn said(wire: Wire, fault: &Fault) -> Response {
    match wire {
        Wire::Http => oip_rest::encode_fault(fault),
        Wire::Grpc => Response::Grpc { code: fault.kind.codes().1, message: fault.message.clone(), body: None },
    }
}

/// Add the request's name to an answer over HTTP that has none.
pub fn name(response: &mut Response, request: &str) {
    if let Response::Http { headers, .. } | Response::Begin { headers, .. } = response {
        if !headers.iter().any(|(name, _)| name == "x-request-id") {
            headers.push(("x-request-id".to_owned(), request.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::head;

    #[test]
    fn only_paths_of_inference_are_hot() {
        let of = |method, path| target(&head(Wire::Http, method, path, &[]));
        let pair = |model: &str, version: &str| Some((model.to_owned(), version.to_owned()));
        assert_eq!(of("POST", "/v2/models/m/infer"), pair("m", ""));
        assert_eq!(of("POST", "/v2/models/m/versions/1.2/infer"), pair("m", "1.2"));
        assert_eq!(of("POST", "/v2/models/a/b/infer"), pair("a/b", ""));
        assert_eq!(of("POST", "/v2/models/a/b/versions/1/infer"), pair("a/b", "1"));
        for path in [
            "/v2/models//infer",
            "/v2/models/a//b/infer",
            "/v2/models/a/../b/infer",
            "/v2/models/a/./infer",
            "/v2/models/a//infer",
            "/v2/models/m/versions//infer",
            "/v2/models/m/versions/1/2/infer",
            "/v2/models/a%2fb/infer",
            "/v2/models/m/infer/",
            "/v2/models/infer",
            "/v1/models/m/infer",
        ] {
            assert_eq!(of("POST", path), None, "{path}");
        }
        assert_eq!(of("GET", "/v2/models/m/infer"), None);
        assert!(target(&head(Wire::Grpc, "POST", METHOD, &[])).is_some());
        assert!(target(&head(Wire::Grpc, "POST", "/inference.GRPCInferenceService/ModelReady", &[])).is_none());
    }
}
