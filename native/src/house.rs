//! The house behind the front: who may come in, which lane takes a request, and what is left to Python.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::access::{AccessLog, Line};
use crate::alarm::Alarm;
use crate::client::{Clients, Paths, Slot};
use crate::fault::{Fault, Kind};
use crate::front::Cork;
use crate::general::{Begin, Calls, Events, Messages};
use crate::hot::{self, Coming};
use crate::lane::Lane;
use crate::lane_job::lock;
use crate::lane_spec::LaneSpec;
use crate::local::Tickets;
use crate::route::{position, Chance, Routes};
use crate::service::{Front, Head, Inbound, Limits, Reply, Response, Service, Start, Wire};
use crate::tables::Table;
use crate::tally::Tally;
use crate::tls::Tls;
use crate::traces::{Records, Sampling, Trace};

/// Bodies from here on are decoded by a thread of their own: the front's must not be kept.
const LARGE: usize = 256 * 1024;

fn read<T>(locked: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    locked.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(locked: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    locked.write().unwrap_or_else(PoisonError::into_inner)
}

/// What Python has told of its methods.
struct Surface {
    /// Paths that need no token.
    open: Paths,
    /// Methods that stream their requests.
    streams: HashSet<String>,
    /// All methods.
    methods: HashSet<String>,
    /// What the figures call inference over REST.
    hot: Arc<str>,
}

impl Default for Surface {
    fn default() -> Surface {
        Surface { open: Paths::default(), streams: HashSet::new(), methods: HashSet::new(), hot: "".into() }
    }
}

/// Everything that lanes, front and Python share.
pub struct House {
    /// By model; the lane that was opened last is the last.
    lanes: RwLock<HashMap<String, Vec<Arc<Lane>>>>,
    routes: RwLock<Routes>,
    clients: RwLock<Clients>,
    surface: RwLock<Surface>,
    chance: Chance,
    alarm: Arc<Alarm>,
    pub events: Arc<Events>,
    pub calls: Arc<Calls>,
    pub tickets: Arc<Tickets>,
    log: RwLock<Option<Arc<AccessLog>>>,
    tally: Tally,
    sampling: RwLock<Option<Sampling>>,
    pub records: Records,
    body: AtomicUsize,
    front: Mutex<Option<Arc<dyn Front>>>,
    porter: Mutex<Option<Sender<Carried>>>,
    carried: AtomicUsize,
}

/// What is told of a request that was refused, beside its head.
struct Refused<'a> {
    request: &'a str,
    client: &'a str,
    kind: Kind,
    /// Whether it was not let in.
    entering: bool,
    received: usize,
    bytes: usize,
    trace: Option<&'a Trace>,
}

/// A large request on its way to its lane.
struct Carried {
    coming: Coming,
    model: String,
    version: String,
}

impl House {
    /// Build one, and begin to look after its lanes.
    pub fn new() -> Arc<House> {
        let events = Arc::new(Events::default());
        let calls = Calls::new(events.clone());
        let house = Arc::new(House {
            lanes: RwLock::default(),
            routes: RwLock::default(),
            clients: RwLock::default(),
            surface: RwLock::default(),
            chance: Chance::default(),
            alarm: Arc::new(Alarm::default()),
            events,
            calls: Arc::new(calls),
            tickets: Arc::new(Tickets::default()),
            log: RwLock::default(),
            tally: Tally::default(),
            sampling: RwLock::default(),
            records: Records::default(),
            body: AtomicUsize::new(0),
            front: Mutex::default(),
            porter: Mutex::default(),
            carried: AtomicUsize::new(0),
        });
        let (watched, alarm) = (Arc::downgrade(&house), house.alarm.clone());
        std::thread::spawn(move || {
            alarm.run(|now| {
                let house = watched.upgrade()?;
                house.calls.sweep();
                let _cork = Cork::new();
                let lanes: Vec<Arc<Lane>> = read(&house.lanes).values().flatten().cloned().collect();
                lanes.iter().filter_map(|lane| lane.sweep(now)).min()
            });
        });
        house
    }

    /// Take a table of Python's: `routes`, `clients`, `surface` (`{"open": ["GET /path" ..], "streams": [path ..],
    /// "methods": [path ..], "hot": route}`), `traces` or `limits` (`{"body": bytes, "calls": at a time, "call_bytes":
    /// waiting}`).
    pub fn set(&self, what: &str, text: &str) -> Result<(), String> {
        match what {
            "routes" => *write(&self.routes) = Routes::read(text)?,
            "clients" => {
                let mut clients = write(&self.clients);
                *clients = Clients::read(text, &clients)?;
            }
            "surface" => {
                let table = Table::read(text)?;
                let [streams, methods] = ["streams", "methods"]
                    .map(|name| table.get(name).list().iter().map(|path| path.text().to_owned()).collect());
                let (open, hot) = (Paths::read(table.get("open")), table.get("hot").text().into());
                *write(&self.surface) = Surface { open, streams, methods, hot };
            }
            "traces" => *write(&self.sampling) = Sampling::read(text)?,
            "limits" => {
                let table = Table::read(text)?;
                self.body.store(table.get("body").count(), Ordering::Relaxed);
                self.calls.limit(table.get("calls").count(), table.get("call_bytes").count());
            }
            _ => return Err(format!("there is no table {what:?}")),
        }
        Ok(())
    }

    /// Open a lane; from now on it gets the requests of its model version.
    pub fn open_lane(&self, spec: LaneSpec) -> Arc<Lane> {
        let lane = Arc::new(Lane::new(spec, self.alarm.clone()));
        write(&self.lanes).entry(lane.spec.model.clone()).or_default().push(lane.clone());
        lane
    }

    /// Close a lane; one that took its place is left alone. True when everything in it was answered.
    pub fn close_lane(&self, lane: &Arc<Lane>, patience: Duration) -> bool {
        let model = &lane.spec.model;
        // It stays known until it is closed, for its deadlines; whoever finds it meanwhile looks again.
        let done = lane.close(patience);
        let mut lanes = write(&self.lanes);
        if let Some(versions) = lanes.get_mut(model) {
            versions.retain(|one| !Arc::ptr_eq(one, lane));
            if versions.is_empty() {
                lanes.remove(model);
            }
        }
        done
    }

    /// The lane of a version.
    pub fn lane(&self, model: &str, version: &str) -> Option<Arc<Lane>> {
        let lanes = read(&self.lanes);
        let mut versions = lanes.get(model)?.iter().rev().filter(|lane| lane.spec.version == version);
        versions.find(|lane| !lane.closing()).cloned()
    }

    /// The lane of a model that was opened last.
    pub fn any(&self, model: &str) -> Option<Arc<Lane>> {
        read(&self.lanes).get(model)?.iter().rev().find(|lane| !lane.closing()).cloned()
    }

    /// The version that the routes choose for a key.
    pub fn route(&self, model: &str, key: &str) -> Option<String> {
        read(&self.routes).choose(model, position(key)).map(str::to_owned)
    }

    /// A new name.
    pub fn name(&self) -> String {
        format!("{:016x}", self.chance.bits())
    }

    /// Keep an access log from now on.
    pub fn set_log(&self, file: Box<dyn Write + Send>) {
        *write(&self.log) = Some(Arc::new(AccessLog::new(file)));
    }

    /// The access log, where one is kept.
    pub fn log(&self) -> Option<Arc<AccessLog>> {
        read(&self.log).clone()
    }

    fn body(&self) -> usize {
        self.body.load(Ordering::Relaxed)
    }

    /// Whether a request needs no token.
    fn is_open(&self, head: &Head) -> bool {
        read(&self.surface).open.has(&head.method, &head.path)
    }

    fn request(&self, head: &Head) -> String {
        let right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        match head.header("x-request-id") {
            Some(given) if (8..=64).contains(&given.len()) && given.bytes().all(right) => given.to_owned(),
            _ => self.name(),
        }
    }

    /// What the figures call a hot request.
    pub fn hot_route(&self, wire: Wire) -> Arc<str> {
        match wire {
            Wire::Http => read(&self.surface).hot.clone(),
            Wire::Grpc => hot::METHOD.trim_start_matches('/').into(),
        }
    }

    /// What the figures call a request that is refused here: of a name that is no method's, nothing is kept.
    fn refused_route(&self, head: &Head, entering: bool) -> Arc<str> {
        match head.wire {
            Wire::Http if entering => "refused".into(),
            Wire::Http => self.hot_route(Wire::Http),
            Wire::Grpc if read(&self.surface).methods.contains(&head.path) => head.path.trim_matches('/').into(),
            Wire::Grpc => "none".into(),
        }
    }

    /// A request that Python does not see has ended: count it, log it, and tell of it where it is traced.
    pub fn ended(&self, line: &Line, received: usize, trace: Option<&Trace>, failed: Option<Kind>) {
        self.tally.add(line.protocol, line.route, line.status, line.total, (received, line.bytes));
        let log = self.log();
        if log.is_none() && trace.is_none() {
            return;
        }
        let said = line.json();
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        if let Some(record) = trace.and_then(|trace| trace.record(&said, failed.map_or("", Kind::name), end)) {
            self.records.push(record);
        }
        if let Some(log) = log {
            log.write(said);
        }
    }

    /// Tell of a request that was refused.
    fn told(&self, head: &Head, refused: &Refused<'_>) {
        let (protocol, status) = match head.wire {
            Wire::Http => ("rest", refused.kind.codes().0),
            Wire::Grpc => ("grpc", u16::from(refused.kind.codes().1)),
        };
        let (model, version) = hot::target(head).unwrap_or_default();
        let line = Line {
            id: refused.request,
            client: refused.client,
            protocol,
            route: &self.refused_route(head, refused.entering),
            model: &model,
            version: &version,
            digest: "",
            status,
            rows: 0,
            queued: Duration::default(),
            computed: Duration::default(),
            total: head.arrived.elapsed(),
            bytes: refused.bytes,
            trace: refused.trace.map_or("", |trace| &trace.id),
        };
        self.ended(&line, refused.received, refused.trace, Some(refused.kind));
    }

    /// Answer a request with a fault; `entering` where it was not let in.
    pub fn refuse(&self, coming: Coming, fault: &Fault, entering: bool) {
        let Coming { head, body, reply, request, client, slot, trace } = coming;
        let response = hot::refuse_by(&*reply, head.wire, fault, &request);
        let refused = Refused {
            request: &request,
            client: &client,
            kind: fault.kind,
            entering,
            received: body.len(),
            bytes: hot::measured(&response).2,
            trace: trace.as_deref(),
        };
        self.told(&head, &refused);
        drop(slot);
        reply.send(response);
    }

    /// The trace of a request, where there are traces.
    fn trace(&self, head: &Head) -> Option<Box<Trace>> {
        let sampling = *read(&self.sampling);
        sampling.map(|sampling| Box::new(sampling.trace(head, &self.chance)))
    }

    /// Hand a request to Python.
    pub fn general(&self, coming: Coming) {
        self.begin(coming, false);
    }

    fn begin(&self, coming: Coming, streaming: bool) -> Option<u64> {
        let Coming { head, body, reply, request, client, slot, .. } = coming;
        let wire = head.wire;
        let named = request.clone();
        match self.calls.begin(Begin { streaming, head, client, request, body, reply, slot }) {
            Ok(number) => Some(number),
            Err((reply, fault)) => {
                reply.send(hot::refuse_by(&*reply, wire, &fault, &named));
                None
            }
        }
    }

    /// Let a request in, or answer why not.
    fn enter(&self, head: Head, body: Vec<u8>, reply: Box<dyn Reply>) -> Option<Coming> {
        let request = self.request(&head);
        let trace = self.trace(&head);
        let mut coming = Coming { head, body, reply, request, client: String::new(), slot: None, trace };
        if self.is_open(&coming.head) {
            return Some(coming);
        }
        let begun = read(&self.clients).begin(&coming.head);
        match begun {
            Ok(slot) => {
                // Where nobody needs to say who he is, a certificate still does.
                let certified = coming.head.peer.name.as_deref().unwrap_or("");
                coming.client = slot.as_ref().map_or(certified, Slot::name).to_owned();
                coming.slot = slot;
                Some(coming)
            }
            Err(fault) => {
                self.refuse(coming, &fault, true);
                None
            }
        }
    }

    fn call(self: &Arc<House>, head: Head, body: Vec<u8>, reply: Box<dyn Reply>) {
        let coming = match self.enter(head, body, reply) {
            Some(coming) => coming,
            None => return,
        };
        match hot::target(&coming.head) {
            Some((model, version)) if coming.head.wire == Wire::Grpc || self.any(&model).is_some() => {
                if coming.body.len() < LARGE {
                    hot::run(self, coming, &model, &version);
                } else {
                    self.carry(Carried { coming, model, version });
                }
            }
            _ => self.general(coming),
        }
    }

    /// Give a large request to the thread that decodes such.
    fn carry(self: &Arc<House>, carried: Carried) {
        let size = carried.coming.body.len();
        if self.carried.fetch_add(size, Ordering::Relaxed) + size > self.body().saturating_mul(4) {
            self.carried.fetch_sub(size, Ordering::Relaxed);
            let fault = Fault::new(Kind::Busy, "too many large requests wait to be decoded");
            return self.refuse(carried.coming, &fault, false);
        }
        let mut porter = lock(&self.porter);
        let sender = porter.get_or_insert_with(|| {
            let (sender, coming) = channel::<Carried>();
            let watched = Arc::downgrade(self);
            std::thread::spawn(move || {
                while let Ok(Carried { coming, model, version }) = coming.recv() {
                    let house = match watched.upgrade() {
                        Some(house) => house,
                        None => return,
                    };
                    let size = coming.body.len();
                    let work = std::panic::AssertUnwindSafe(|| hot::run(&house, coming, &model, &version));
                    let _ = std::panic::catch_unwind(work);
                    house.carried.fetch_sub(size, Ordering::Relaxed);
                }
            });
            sender
        });
        let _ = sender.send(carried);
    }

    /// Listen. None or a negative port listens on nothing.
    pub fn start(
        self: &Arc<House>,
        start: Start,
        host: &str,
        ports: (Option<u16>, Option<u16>),
        limits: Limits,
        tls: Option<Tls>,
    ) -> std::io::Result<(u16, u16)> {
        let front = start(host, ports.0, ports.1, limits, tls, Arc::new(Door(self.clone())))?;
        let found = front.ports();
        *lock(&self.front) = Some(front);
        Ok(found)
    }

    /// Accept nothing more; true when everything that was accepted has been answered within so long. May block.
    pub fn drain(&self, seconds: f64) -> bool {
        let front = lock(&self.front).clone();
        front.map_or(true, |front| front.drain(seconds))
    }

    /// Listen no more, and close every connection.
    pub fn close(&self) {
        if let Some(front) = lock(&self.front).take() {
            front.stop();
        }
        self.records.stop();
        *lock(&self.porter) = None;
        let log = write(&self.log).take();
        drop(log);
    }

    /// End everything.
    pub fn stop(&self) {
        self.close();
        self.alarm.stop();
        self.events.stop();
    }

    /// What the house itself has to tell, as JSON.
    pub fn figures(&self) -> String {
        let dropped = self.log().map_or(0, |log| log.dropped());
        let (calls, untraced) = (self.calls.count(), self.records.dropped());
        let mut out = format!("{{\"calls\":{calls},\"log_dropped\":{dropped},\"traces_dropped\":{untraced},");
        self.tally.json(&mut out);
        out.push('}');
        out
    }
}

/// How the front knows the house.
struct Door(Arc<House>);

impl Service for Door {
    fn admit(&self, head: &Head) -> Result<usize, Response> {
        if self.0.is_open(head) {
            return Ok(self.0.body());
        }
        read(&self.0.clients).admit(head).map(|()| self.0.body()).map_err(|fault| {
            let (request, trace) = (self.0.request(head), self.0.trace(head));
            let mut response = hot::said(Wire::Http, &fault);
            let refused = Refused {
                request: &request,
                client: "",
                kind: fault.kind,
                entering: true,
                received: 0,
                bytes: if head.wire == Wire::Http { hot::measured(&response).2 } else { 0 },
                trace: trace.as_deref(),
            };
            self.0.told(head, &refused);
            hot::name(&mut response, &request);
            // Over gRPC the front makes a status of it, and the body its text.
            if let (Wire::Grpc, Response::Http { body, .. }) = (head.wire, &mut response) {
                *body = fault.message.into_bytes();
            }
            response
        })
    }

    fn streams(&self, path: &str) -> bool {
        read(&self.0.surface).streams.contains(path)
    }

    fn call(&self, head: Head, body: Vec<u8>, reply: Box<dyn Reply>) {
        self.0.call(head, body, reply);
    }

    fn open(&self, head: Head, reply: Box<dyn Reply>) -> Box<dyn Inbound> {
        let number = self.0.enter(head, Vec::new(), reply).and_then(|coming| self.0.begin(coming, true));
        Box::new(Messages { calls: self.0.calls.clone(), number })
    }
}
