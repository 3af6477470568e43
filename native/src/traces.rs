//! Traces of the requests that Python does not see: which are sampled, and what is told of those when they have ended.
//!
//! Python makes the spans, from records, after the fact. So a sampled request waits for nobody; where more end than are
//! taken, the newest are dropped and counted.
//!
//! Source: <https://www.w3.org/TR/trace-context/>.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lane_job::lock;
use crate::route::Chance;
use crate::service::Head;
use crate::tables::{quote, Table};

const WAITING: usize = 4096;
/// So many are taken at a time, so that the thread that takes them lets others run.
const TAKEN: usize = 128;
/// A `tracestate` that is longer is not passed on.
const STATE: usize = 512;

/// Which requests are sampled, as Python's sampler would.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Whether a caller decides for its own requests.
    parents: bool,
    /// Traces whose id's lower half is below this are sampled; none for all.
    below: Option<u64>,
}

impl Sampling {
    /// Read `{"parents": bool, "rate": from 0 to 1}`; none for null, which samples nothing and traces nothing.
    pub fn read(text: &str) -> Result<Option<Sampling>, String> {
        let table = Table::read(text)?;
        if matches!(table, Table::Null) {
            return Ok(None);
        }
        let rate = table.get("rate").number();
        // As the specification has it: the rate's share of 2^64.
        let below = if rate >= 1.0 { None } else { Some((rate.max(0.0) * 18_446_744_073_709_551_616.0) as u64) };
        Ok(Some(Sampling { parents: table.get("parents").yes(), below }))
    }

    /// The trace of a request: its caller's, or a new one.
    pub fn trace(self, head: &Head, chance: &Chance) -> Trace {
        let parent = head.header("traceparent").and_then(parsed);
        let (id, flagged) = match parent {
            Some((id, flagged)) => (id.to_owned(), Some(flagged)),
            None => (format!("{:016x}{:016x}", chance.bits() | 1, chance.bits()), None),
        };
        let drawn = || match self.below {
            None => true,
            Some(below) => {
                id.get(16..).and_then(|half| u64::from_str_radix(half, 16).ok()).map_or(false, |half| half < below)
            }
        };
        let sampled = match flagged {
            Some(flagged) if self.parents => flagged,
            _ => drawn(),
        };
        let given = |name: &str| head.header(name).unwrap_or("").to_owned();
        let told = if sampled {
            let state = Some(given("tracestate")).filter(|state| state.len() <= STATE).unwrap_or_default();
            let parent = if flagged.is_some() { given("traceparent") } else { String::new() };
            Some(Told { parent, state, method: head.method.clone(), path: head.path.clone() })
        } else {
            None
        };
        Trace { id, told }
    }
}

/// The id, and whether it is sampled, of a `traceparent`; none where it is not one.
fn parsed(text: &str) -> Option<(&str, bool)> {
    let lower = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = text.trim().splitn(5, '-').collect();
    let (version, id, span, flags) = match parts[..] {
        [version, id, span, flags] => (version, id, span, flags),
        // What a later version says behind the flags is not understood, and no harm.
        [version, id, span, flags, _] if version != "00" => (version, id, span, flags),
        _ => return None,
    };
    let right =
        [(version, 2), (id, 32), (span, 16), (flags, 2)].iter().all(|(part, size)| part.len() == *size && lower(part));
    if !right || version == "ff" || [id, span].iter().any(|part| part.bytes().all(|byte| byte == b'0')) {
        return None;
    }
    u8::from_str_radix(flags, 16).ok().map(|flags| (id, flags & 1 == 1))
}

/// The trace that a request is in.
#[derive(Debug)]
pub struct Trace {
    /// In hexadecimal.
    pub id: String,
    /// None where it is not sampled.
    told: Option<Told>,
}

/// What of its head is told of a sampled request.
#[derive(Debug)]
struct Told {
    /// Its `traceparent`; empty where the trace begins here.
    parent: String,
    state: String,
    method: String,
    path: String,
}

impl Trace {
    /// Write a record: what the access log says of the request, which is an object, and more.
    pub fn record(&self, line: &str, error: &str, end: f64) -> Option<String> {
        let told = self.told.as_ref()?;
        let mut out = String::with_capacity(line.len() + 256);
        out.push_str(line.trim_end().trim_end_matches('}'));
        for (key, value) in [
            ("parent", &*told.parent),
            ("state", &told.state),
            ("method", &told.method),
            ("path", &told.path),
            ("error", error),
        ] {
            out.push_str(&format!(",\"{key}\":"));
            quote(value, &mut out);
        }
        out.push_str(&format!(",\"end\":{end:?}}}"));
        Some(out)
    }
}

/// Records that Python has not taken.
#[derive(Default)]
pub struct Records {
    waiting: Mutex<(Vec<String>, bool)>,
    ready: Condvar,
    dropped: AtomicU64,
}

impl Records {
    /// Add one.
    pub fn push(&self, record: String) {
        let mut waiting = lock(&self.waiting);
        if waiting.0.len() >= WAITING || waiting.1 {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.0.push(record);
        self.ready.notify_one();
    }

    /// Wait for some, and return them as a JSON array; none when all is over and nothing waits.
    pub fn take(&self, patience: Duration) -> Option<String> {
        let until = Instant::now() + patience;
        let mut waiting = lock(&self.waiting);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !waiting.0.is_empty() || (left.is_zero() && !waiting.1) {
                let count = waiting.0.len().min(TAKEN);
                let taken: Vec<String> = waiting.0.drain(..count).collect();
                return Some(format!("[{}]", taken.join(",")));
            }
            if waiting.1 {
                return None;
            }
            waiting = self.ready.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No more are to come.
    pub fn stop(&self) {
        lock(&self.waiting).1 = true;
        self.ready.notify_all();
    }

    /// How many were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::head;
    use crate::service::Wire;

    const ID: &str = "0af7651916cd43dd8448eb211c80319c";

    fn trace(sampling: &str, parent: &str) -> Trace {
        let headers: &[(&str, &str)] = if parent.is_empty() { &[] } else { &[("traceparent", parent)] };
        let sampling = Sampling::read(sampling).unwrap().unwrap();
        sampling.trace(&head(Wire::Http, "POST", "/a", headers), &Chance::default())
    }

    fn parent(flags: &str) -> String {
        format!("00-{ID}-b7ad6b7169203331-{flags}")
    }

    #[test]
    fn a_callers_trace_is_gone_on_with() {
        for flags in ["00", "01", "03"] {
            let found = trace(r#"{"parents":true,"rate":1}"#, &parent(flags));
            assert_eq!((&*found.id, found.told.is_some()), (ID, flags != "00"));
        }
        assert!(trace(r#"{"parents":true,"rate":0}"#, &parent("01")).told.is_some());
        assert!(trace(r#"{"parents":false,"rate":0}"#, &parent("01")).told.is_none());
        assert!(trace(r#"{"parents":false,"rate":1}"#, &parent("00")).told.is_some());
    }

    #[test]
    fn what_is_no_traceparent_begins_a_trace() {
        for wrong in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319\u{e9}-b7ad6b7169203331-01",
        ] {
            let found = trace(r#"{"parents":true,"rate":1}"#, wrong);
            assert!(found.id != ID && found.id.len() == 32, "{wrong}");
            assert_eq!(found.told.unwrap().parent, "", "{wrong}");
        }
        assert_eq!(trace(r#"{"parents":true,"rate":1}"#, &(parent("01").replacen("00", "01", 1) + "-more")).id, ID);
    }

    #[test]
    fn a_share_of_the_traces_is_sampled() {
        let count = (0..4000).filter(|_| trace(r#"{"parents":true,"rate":0.25}"#, "").told.is_some()).count();
        assert!((800..1200).contains(&count), "{count}");
        assert!((0..100).all(|_| trace(r#"{"parents":true,"rate":0}"#, "").told.is_none()));
    }

    #[test]
    fn a_record_is_the_line_and_more() {
        let record = trace(r#"{"parents":true,"rate":1}"#, &parent("01")).record("{\"id\":\"a\"}\n", "", 1.5).unwrap();
        let table = Table::read(&record).unwrap();
        assert_eq!((table.get("id").text(), table.get("parent").text()), ("a", &*parent("01")));
        assert_eq!((table.get("path").text(), table.get("end").number()), ("/a", 1.5));
    }

    #[test]
    fn records_are_taken_in_order_and_what_is_too_much_is_counted() {
        let records = Records::default();
        (0..=WAITING).for_each(|number| records.push(number.to_string()));
        assert_eq!(records.dropped(), 1);
        records.stop();
        let mut taken = Vec::new();
        while let Some(text) = records.take(Duration::ZERO) {
            taken.extend(Table::read(&text).unwrap().list().iter().map(Table::count));
        }
        assert!(taken.into_iter().eq(0..WAITING));
    }
}
