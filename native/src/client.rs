//! Who may ask, how often, and how much at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::fault::{Fault, Kind};
use crate::lane_job::lock;
use crate::service::Head;
use crate::sha256::{from_hex, sha256};
use crate::tables::Table;

/// No header with a token is longer.
const HEADER: usize = 4096;
const NOBODY: &str =
    "nobody says who is asking: this server takes a token\n  -> send it as Authorization: Bearer TOKEN";
const STRANGER: &str = "the token is nobody's\n  -> ask whoever runs this server for a token";

/// One client.
#[derive(Debug)]
pub struct Client {
    pub name: String,
    /// Requests a second in the long run, and so many at once; 0 is without limit.
    rate: f64,
    burst: f64,
    /// So many at a time; 0 is without limit.
    concurrent: usize,
    counts: Arc<Counts>,
}

/// What is counted of a client; it goes on when its settings change.
#[derive(Debug, Default)]
struct Counts {
    /// What was left in the bucket, and when.
    bucket: Mutex<Option<(f64, Instant)>>,
    running: AtomicUsize,
}

impl Client {
    fn read(table: &Table, before: &Clients) -> Client {
        let name = table.get("name").text();
        let old = before.tokens.values().chain(before.certified.values()).find(|client| client.name == name);
        let rate = table.get("rate").number().max(0.0);
        let burst = table.get("burst").number();
        Client {
            name: name.to_owned(),
            rate,
            burst: if burst >= 1.0 { burst } else { rate.ceil().max(1.0) },
            concurrent: table.get("concurrent").count(),
            counts: old.map_or_else(Arc::default, |old| old.counts.clone()),
        }
    }

    /// Take a token from the bucket.
    fn charge(&self, now: Instant) -> Result<(), Fault> {
        if self.rate == 0.0 {
            return Ok(());
        }
        let mut bucket = lock(&self.counts.bucket);
        let (had, since) = bucket.unwrap_or((self.burst, now));
        let tokens = (had + now.saturating_duration_since(since).as_secs_f64() * self.rate).min(self.burst);
        if tokens >= 1.0 {
            *bucket = Some((tokens - 1.0, now));
            return Ok(());
        }
        *bucket = Some((tokens, now));
        let wait = (1.0 - tokens) / self.rate;
        let (name, rate) = (&self.name, self.rate);
        let message = format!(
            "client '{name}' asks more than {rate} times a second\n  -> wait {wait:.3} s before the next request"
        );
        let mut fault = Fault::new(Kind::Busy, message);
        fault.retry_after = wait.ceil().clamp(1.0, 3600.0) as u32;
        Err(fault)
    }

    fn crowded(&self) -> Result<(), Fault> {
        if self.concurrent == 0 || self.counts.running.load(Ordering::Relaxed) < self.concurrent {
            return Ok(());
        }
        let (name, most) = (&self.name, self.concurrent);
        let message = format!(
            "client '{name}' has {most} requests open, as many as it may\n  -> wait for an answer before the next request"
        );
        Err(Fault::new(Kind::Busy, message))
    }
}

/// One request of a client that is being answered: it ends when this is dropped.
#[derive(Debug)]
pub struct Slot(Arc<Client>);

impl Slot {
    /// Who it is.
    pub fn name(&self) -> &str {
        &self.0.name
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.counts.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All clients; where there are none, everybody may ask.
#[derive(Debug, Default)]
pub struct Clients {
    tokens: HashMap<[u8; 32], Arc<Client>>,
    /// Those without a token, by the name that their certificate has.
    certified: HashMap<String, Arc<Client>>,
}

impl Clients {
    /// Read `[{"name": .., "token_sha256": .., "rate": .., "burst": .., "concurrent": ..}]`; what is counted of a client goes
    /// on under its name. One whose token is empty is known by its certificate.
    pub fn read(text: &str, before: &Clients) -> Result<Clients, String> {
        let (mut tokens, mut certified) = (HashMap::new(), HashMap::new());
        for table in Table::read(text)?.list() {
            let client = Arc::new(Client::read(table, before));
            let digest = table.get("token_sha256").text();
            if digest.is_empty() && matches!(table.get("token_sha256"), Table::Text(_)) {
                certified.insert(client.name.clone(), client);
                continue;
            }
            let digest = from_hex(digest);
            let digest = digest.ok_or_else(|| format!("client {:?} has no SHA-256 of a token", client.name))?;
            if tokens.insert(digest, client).is_some() {
                return Err("two clients have one token".to_owned());
            }
        }
        Ok(Clients { tokens, certified })
    }

    /// Who asks; none where nobody needs to say.
    fn identify(&self, head: &Head) -> Result<Option<&Arc<Client>>, Fault> {
        if self.tokens.is_empty() && self.certified.is_empty() {
            return Ok(None);
        }
        let refuse = |message: &str| Err(Fault::new(Kind::Authentication, message));
        let given = head.header("authorization");
        if let (None, Some(name)) = (given, head.peer.name.as_deref()) {
            // Who has a token must show it: a certificate of the same name is not enough.
            if let Some(client) = self.certified.get(name) {
                return Ok(Some(client));
            }
        }
        let given = given.filter(|given| given.len() <= HEADER).and_then(|given| given.split_once(' '));
        let token = match given {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() => token.trim(),
            _ => return refuse(NOBODY),
        };
        // The key is a hash: how long the look-up takes says nothing about the tokens that are known.
        self.tokens.get(&sha256(token.as_bytes())).map_or_else(|| refuse(STRANGER), |client| Ok(Some(client)))
    }

    /// Whether a request may come: before its body is read.
    pub fn admit(&self, head: &Head) -> Result<(), Fault> {
        match self.identify(head)? {
            Some(client) => client.crowded().and_then(|()| client.charge(head.arrived)),
            None => Ok(()),
        }
    }

    /// Begin to answer a request.
    pub fn begin(&self, head: &Head) -> Result<Option<Slot>, Fault> {
        match self.identify(head)? {
            Some(client) => {
                client.crowded()?;
                client.counts.running.fetch_add(1, Ordering::Relaxed);
                Ok(Some(Slot(client.clone())))
            }
            None => Ok(None),
        }
    }
}

/// Calls that need no token, as `GET /path`: `{name}` stands for one or more characters that are no slash, `{name*}` for any at the
/// end. A path with an escape never fits: it could lead elsewhere once it is decoded.
#[derive(Debug, Default)]
pub struct Paths {
    patterns: Vec<Vec<String>>,
}

impl Paths {
    /// From the patterns.
    pub fn read(table: &Table) -> Paths {
        let split = |pattern: &Table| pattern.text().split('/').map(str::to_owned).collect();
        Paths { patterns: table.list().iter().map(split).collect() }
    }

    /// Whether a call fits one; HEAD is like GET.
    pub fn has(&self, method: &str, path: &str) -> bool {
        if path.contains('%') || self.patterns.is_empty() {
            return false;
        }
        let call = format!("{} {path}", if method == "HEAD" { "GET" } else { method });
        let parts: Vec<&str> = call.split('/').collect();
        self.patterns.iter().any(|pattern| fits(pattern, &parts))
    }
}

fn fits(pattern: &[String], parts: &[&str]) -> bool {
    for (at, want) in pattern.iter().enumerate() {
        if want.starts_with('{') && want.ends_with("*}") {
            return at < parts.len();
        }
        let field = want.starts_with('{') && want.ends_with('}');
        match parts.get(at) {
            Some(part) if (field && !part.is_empty()) || part == want => {}
            _ => return false,
        }
    }
    pattern.len() == parts.len()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::service::Wire;
    use std::time::Duration;

    pub(crate) fn head(wire: Wire, method: &str, path: &str, headers: &[(&str, &str)]) -> Head {
        Head {
            wire,
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            peer: [127, 0, 0, 1].into(),
            arrived: Instant::now(),
        }
    }

    // SHA-256 of "abc".
    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn clients(more: &str) -> Clients {
        Clients::read(&format!(r#"[{{"name":"ann","token_sha256":"{DIGEST}"{more}}}]"#), &Clients::default()).unwrap()
    }

    fn call(token: &str) -> Head {
        head(Wire::Http, "GET", "/", &[("authorization", token)])
    }

    #[test]
    fn where_there_are_no_clients_everybody_may_ask() {
        assert!(Clients::default().begin(&head(Wire::Http, "GET", "/", &[])).unwrap().is_none());
    }

    #[test]
    fn a_token_says_who_it_is_and_nothing_else_is_taken() {
        let clients = clients("");
        assert_eq!(clients.begin(&call("Bearer abc")).unwrap().unwrap().name(), "ann");
        assert_eq!(clients.begin(&call("bearer abc")).unwrap().unwrap().name(), "ann");
        for wrong in ["Bearer abd", "Bearer ", "abc", "Basic abc", ""] {
            assert_eq!(clients.admit(&call(wrong)).unwrap_err().kind, Kind::Authentication);
        }
        assert_eq!(clients.admit(&head(Wire::Grpc, "POST", "/", &[])).unwrap_err().kind, Kind::Authentication);
    }

    #[test]
    fn a_certificate_says_who_has_no_token() {
        let text = format!(r#"[{{"name":"ann","token_sha256":"{DIGEST}"}},{{"name":"bob","token_sha256":""}}]"#);
        let clients = Clients::read(&text, &Clients::default()).unwrap();
        let certified = |name: &str, headers: &[(&str, &str)]| {
            let mut head = head(Wire::Http, "GET", "/", headers);
            head.peer.name = Some(name.into());
            clients.begin(&head).map(|slot| slot.unwrap().name().to_owned()).map_err(|fault| fault.kind)
        };
        assert_eq!(certified("bob", &[]), Ok("bob".to_owned()));
        assert_eq!(certified("bob", &[("authorization", "Bearer abc")]), Ok("ann".to_owned()));
        assert_eq!(certified("bob", &[("authorization", "Bearer abd")]), Err(Kind::Authentication));
        assert_eq!(certified("ann", &[]), Err(Kind::Authentication));
        assert_eq!(certified("", &[]), Err(Kind::Authentication));
        assert!(clients.begin(&head(Wire::Http, "GET", "/", &[])).is_err());
    }

    #[test]
    fn a_bucket_fills_by_its_rate() {
        let clients = clients(r#","rate":2,"burst":3"#);
        let mut call = call("Bearer abc");
        for _ in 0..3 {
            clients.admit(&call).unwrap();
        }
        let fault = clients.admit(&call).unwrap_err();
        assert_eq!((fault.kind, fault.retry_after), (Kind::Busy, 1));
        call.arrived += Duration::from_millis(500);
        clients.admit(&call).unwrap();
        clients.admit(&call).unwrap_err();
        call.arrived += Duration::from_secs(100);
        for _ in 0..3 {
            clients.admit(&call).unwrap();
        }
        clients.admit(&call).unwrap_err();
    }

    #[test]
    fn a_slot_is_free_again_when_the_answer_has_gone() {
        let clients = clients(r#","concurrent":1"#);
        let slot = clients.begin(&call("Bearer abc")).unwrap();
        assert_eq!(clients.begin(&call("Bearer abc")).unwrap_err().kind, Kind::Busy);
        assert_eq!(clients.admit(&call("Bearer abc")).unwrap_err().kind, Kind::Busy);
        drop(slot);
        assert!(clients.begin(&call("Bearer abc")).is_ok());
    }

    #[test]
    fn what_is_counted_goes_on_when_the_settings_change() {
        let before = clients(r#","rate":1"#);
        let call = call("Bearer abc");
        before.admit(&call).unwrap();
        let text = format!(r#"[{{"name":"ann","token_sha256":"{DIGEST}","rate":2,"burst":1}}]"#);
        assert!(Clients::read(&text, &before).unwrap().admit(&call).is_err());
        let text = format!(r#"[{{"name":"bob","token_sha256":"{DIGEST}","rate":1}}]"#);
        assert!(Clients::read(&text, &before).unwrap().admit(&call).is_ok());
        assert!(Clients::read(r#"[{"name":"ann"}]"#, &before).is_err());
    }

    #[test]
    fn open_paths_are_exactly_those_of_the_patterns() {
        let paths = Paths::read(
            &Table::read(r#"["GET /v2/health/live", "GET /v2/models/{m}/ready", "GET /docs/{rest*}"]"#).unwrap(),
        );
        for path in ["/v2/health/live", "/v2/models/a/ready", "/docs/", "/docs/a/b"] {
            assert!(paths.has("GET", path) && paths.has("HEAD", path), "{path}");
            assert!(!paths.has("POST", path), "{path}");
        }
        for path in
            ["/v2/health/live/", "/v2/models//ready", "/v2/models/a/b/ready", "/v2/models/a%2Fb/ready", "/docs", "/"]
        {
            assert!(!paths.has("GET", path), "{path}");
        }
    }
}
