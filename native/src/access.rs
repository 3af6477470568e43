//! The access log of the hot requests: one line of JSON each, written by a thread. A full buffer drops lines and counts
//! them; nobody ever waits.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::lane_job::lock;
use crate::tables::quote;

const LINES: usize = 8192;

/// What is told of one request. Its keys are those of `vitrify.serve.observe`.
pub struct Line<'a> {
    pub id: &'a str,
    pub client: &'a str,
    pub protocol: &'static str,
    /// As the figures call it.
    pub route: &'a str,
    pub model: &'a str,
    pub version: &'a str,
    pub digest: &'a str,
    /// Of HTTP or of gRPC.
    pub status: u16,
    pub rows: usize,
    pub queued: Duration,
    pub computed: Duration,
    pub total: Duration,
    /// Of the answer.
    pub bytes: usize,
    /// The trace's id; empty where there are no traces.
    pub trace: &'a str,
}

impl Line<'_> {
    /// As JSON, with the line's end.
    pub fn json(&self) -> String {
        let mut out = String::with_capacity(384);
        out.push_str("{\"time\":\"");
        out.push_str(&said(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()));
        out.push('"');
        for (key, value) in [
            ("id", self.id),
            ("client", self.client),
            ("protocol", self.protocol),
            ("route", self.route),
            ("model", self.model),
            ("version", self.version),
            ("digest", self.digest),
        ] {
            out.push_str(",\"");
            out.push_str(key);
            out.push_str("\":");
            quote(value, &mut out);
        }
        if !self.trace.is_empty() {
            out.push_str(",\"trace\":");
            quote(self.trace, &mut out);
        }
        let [queued, computed, total] = [self.queued, self.computed, self.total].map(|time| time.as_secs_f64() * 1e3);
        out.push_str(&format!(
            ",\"status\":{},\"rows\":{},\"queued_ms\":{queued:.3},\"computed_ms\":{computed:.3},\"total_ms\":{total:.3},\"bytes\":{}}}\n",
            self.status, self.rows, self.bytes
        ));
        out
    }
}

/// A time since 1970 in UTC, as ISO 8601 with milliseconds.
fn said(time: Duration) -> String {
    let (days, second) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
    // Years that begin in March, so that a leap day is a year's last: eras of 400 years, 146,097 days each.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, year + era * 400) } else { (month - 9, year + era * 400 + 1) };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = time.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}+00:00")
}

/// Seconds that the end of a log waits for its last lines.
const LAST: Duration = Duration::from_secs(1);

/// The log. When it is let go of, what was written into it comes into the file, unless that takes too long.
pub struct AccessLog {
    lines: Option<SyncSender<String>>,
    dropped: Arc<AtomicU64>,
    ended: Mutex<Receiver<()>>,
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.lines = None;
        let _ = lock(&self.ended).recv_timeout(LAST);
    }
}

impl AccessLog {
    /// Write into a file from now on; the thread ends with the log.
    pub fn new(mut file: impl Write + Send + 'static) -> AccessLog {
        let (lines, waiting) = sync_channel::<String>(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = dropped.clone();
        let (end, ended) = channel::<()>();
        std::thread::spawn(move || {
            let _end = end;
            while let Ok(mut text) = waiting.recv() {
                let mut count = 1;
                while let (true, Ok(more)) = (text.len() < 1 << 16, waiting.try_recv()) {
                    text.push_str(&more);
                    count += 1;
                }
                if file.write_all(text.as_bytes()).and_then(|()| file.flush()).is_err() {
                    lost.fetch_add(count, Ordering::Relaxed);
                }
            }
        });
        AccessLog { lines: Some(lines), dropped, ended: Mutex::new(ended) }
    }

    /// Write a line, sooner or later.
    pub fn write(&self, line: String) {
        if self.lines.as_ref().map_or(true, |lines| lines.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that were not written.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Table;
    use std::sync::mpsc::Sender;

    struct Pipe(Sender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| std::io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, time) in [
            (0, "1970-01-01T00:00:00.007+00:00"),
            (951_782_399, "2000-02-28T23:59:59.007+00:00"),
            (951_868_800, "2000-03-01T00:00:00.007+00:00"),
            (1_709_164_800, "2024-02-29T00:00:00.007+00:00"),
            (1_796_083_199, "2026-11-30T23:59:59.007+00:00"),
            (4_107_542_400, "2100-03-01T00:00:00.007+00:00"),
        ] {
            assert_eq!(said(Duration::new(seconds, 7_000_000)), time);
        }
    }

    #[test]
    fn a_line_is_json() {
        let (sender, written) = channel();
        let log = AccessLog::new(Pipe(sender));
        let ms = Duration::from_millis;
        let line = Line {
            id: "a\"b",
            client: "",
            protocol: "rest",
            route: "infer",
            model: "m",
            version: "1",
            digest: "sha256:0",
            status: 200,
            rows: 3,
            queued: ms(1),
            computed: ms(2),
            total: ms(4),
            bytes: 7,
            trace: "",
        };
        log.write(line.json());
        let bytes = written.recv_timeout(Duration::from_secs(60)).unwrap();
        let table = Table::read(&String::from_utf8(bytes).unwrap()).unwrap();
        assert_eq!(table.get("id").text(), "a\"b");
        assert_eq!((table.get("status").count(), table.get("total_ms").number()), (200, 4.0));
        assert_eq!(log.dropped(), 0);
    }
}
