//! What a lane has done: counts and histograms, as `vitrify.serve.lanes.Figures` has them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fault::Kind;

/// Upper bounds of the buckets of every histogram of times, in seconds; one more bucket holds the rest.
pub const BOUNDS: [f64; 16] =
    [50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
/// Upper bounds of the buckets of the histogram of rows a batch.
pub const ROW_BOUNDS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Counts by bucket, not cumulated.
#[derive(Debug, Clone)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    total: f64,
}

impl Histogram {
    /// Empty.
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], total: 0.0 }
    }

    /// Count one value; a bound belongs to the bucket below it.
    pub fn add(&mut self, value: f64) {
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket] += 1;
        self.total += value;
    }

    /// Write it as JSON.
    pub fn json(&self, out: &mut String) {
        let _ = write!(out, "{{\"counts\":{:?},\"total\":{:?}}}", self.counts, self.total);
    }
}

/// What a lane has done since it was opened. What waits and runs now, the lane itself knows.
#[derive(Debug, Clone)]
pub struct Figures {
    pub ok: u64,
    pub failed: BTreeMap<&'static str, u64>,
    pub batches: u64,
    pub rows: u64,
    pub batch_rows: Histogram,
    pub queued: Histogram,
    pub computed: Histogram,
    pub answered: Histogram,
    last: Option<SystemTime>,
}

impl Default for Figures {
    fn default() -> Figures {
        let times = Histogram::new(&BOUNDS);
        Figures {
            ok: 0,
            failed: BTreeMap::new(),
            batches: 0,
            rows: 0,
            batch_rows: Histogram::new(&ROW_BOUNDS),
            queued: times.clone(),
            computed: times.clone(),
            answered: times,
            last: None,
        }
    }
}

impl Figures {
    /// A request was admitted now.
    pub fn admitted(&mut self) {
        self.last = Some(SystemTime::now());
    }

    /// A request was not answered.
    pub fn fail(&mut self, kind: Kind) {
        *self.failed.entry(kind.name()).or_insert(0) += 1;
    }

    /// A request's caller did not wait for its answer.
    pub fn left(&mut self) {
        *self.failed.entry("CancelledError").or_insert(0) += 1;
    }

    /// A batch was run.
    pub fn batch(&mut self, rows: usize, computed: Duration) {
        self.batches += 1;
        self.rows += rows as u64;
        self.batch_rows.add(rows as f64);
        self.computed.add(computed.as_secs_f64());
    }

    /// As JSON, with what is so now.
    pub fn json(&self, waiting: usize, running: usize, stuck: bool) -> String {
        let mut out =
            format!("{{\"waiting\":{waiting},\"running\":{running},\"stuck\":{stuck},\"ok\":{},\"failed\":{{", self.ok);
        for (number, (name, count)) in self.failed.iter().enumerate() {
            let _ = write!(out, "{}\"{name}\":{count}", if number > 0 { "," } else { "" });
        }
        let _ = write!(out, "}},\"batches\":{},\"rows\":{}", self.batches, self.rows);
        for (name, histogram) in [
            ("batch_rows", &self.batch_rows),
            ("queued", &self.queued),
            ("computed", &self.computed),
            ("answered", &self.answered),
        ] {
            let _ = write!(out, ",\"{name}\":");
            histogram.json(&mut out);
        }
        let last =
            self.last.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0.0, |time| time.as_secs_f64());
        let _ = write!(out, ",\"last\":{last:?}}}");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Table;

    #[test]
    fn a_bound_belongs_to_the_bucket_below_it_and_the_rest_to_the_last() {
        let mut rows = Histogram::new(&ROW_BOUNDS);
        for value in [1.0, 2.0, 3.0, 512.0, 513.0] {
            rows.add(value);
        }
        assert_eq!(rows.counts, [1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn the_snapshot_is_json() {
        let mut figures = Figures::default();
        figures.fail(Kind::Busy);
        figures.fail(Kind::Busy);
        figures.fail(Kind::Expired);
        figures.batch(3, Duration::from_millis(3));
        let table = Table::read(&figures.json(1, 2, true)).unwrap();
        assert_eq!(table.get("failed").get("BusyError").count(), 2);
        assert_eq!(table.get("batch_rows").get("counts").list()[2].count(), 1);
        assert!(table.get("stuck").yes());
        assert_eq!(table.get("last").number(), 0.0);
    }
}
