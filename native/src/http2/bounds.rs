//! What keeps a client that sends much and costs more from harming others.

use std::time::Instant;

/// A bucket of tokens: so many at once, so many a second in the long run.
pub(super) struct Bucket {
    tokens: f64,
    burst: f64,
    rate: f64,
    at: Instant,
}

impl Bucket {
    pub fn new(burst: f64, rate: f64, now: Instant) -> Bucket {
        Bucket { tokens: burst, burst, rate, at: now }
    }

    /// Give tokens back.
    pub fn give(&mut self, tokens: f64) {
        self.tokens = (self.tokens + tokens).min(self.burst);
    }

    /// Take a token; false where none is left.
    pub fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + passed * self.rate).min(self.burst) - 1.0;
        if self.tokens < 0.0 {
            self.tokens = 0.0;
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_runs_empty_and_fills_again() {
        let start = Instant::now();
        let mut bucket = Bucket::new(3.0, 2.0, start);
        let mut taken = |seconds: u64| bucket.take(start + Duration::from_secs(seconds));
        assert_eq!([taken(0), taken(0), taken(0), taken(0)], [true, true, true, false]);
        assert_eq!([taken(1), taken(1), taken(1)], [true, true, false]);
        bucket.give(1.0);
        let mut taken = |seconds: u64| bucket.take(start + Duration::from_secs(seconds));
        assert_eq!([taken(1), taken(1)], [true, false]);
        assert_eq!([taken(99), taken(99), taken(99), taken(99)], [true, true, true, false]);
    }
}
