//! Whether a batch should wait for more rows: only where that pays, by what was measured lately.
//!
//! With `k` rows at hand, a run that costs `c`, and `g` more rows to be had in a wait of `w`, waiting pays where
//! `(k + g) / (c + w) > k / c`, that is `g * c > k * w`. Under light load `g` is near nothing, and nobody waits.

use std::time::{Duration, Instant};

/// Weight of what was measured last.
const WEIGHT: f64 = 0.125;
/// How quickly the hope comes back after waits in vain.
const HOPE: f64 = 1.0 / 64.0;
/// So many times the usual time between two rows is a sign that nobody comes.
const PAUSES: f64 = 4.0;

/// What was measured.
#[derive(Debug)]
pub struct Pace {
    /// Rows a second that arrive.
    rate: f64,
    /// Seconds a run takes.
    cost: f64,
    /// Of the rows that were expected during waits, which part came.
    luck: f64,
    arrived: usize,
    since: Option<Instant>,
    last: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { rate: 0.0, cost: 0.0, luck: 1.0, arrived: 0, since: None, last: None }
    }
}

impl Pace {
    /// Rows have come.
    pub fn arrived(&mut self, rows: usize, now: Instant) {
        self.arrived += rows;
        self.last = Some(now);
    }

    /// When a wait that began then is to end: after the delay, or when nothing has come for much longer than usual.
    pub fn until(&self, began: Instant, delay: Duration) -> Instant {
        let usual = Duration::from_secs_f64(PAUSES / self.rate.max(PAUSES));
        (began + delay).min(self.last.map_or(began, |last| last.max(began)) + usual)
    }

    /// A run took so long.
    pub fn ran(&mut self, cost: Duration) {
        let cost = cost.as_secs_f64();
        self.cost = if self.cost == 0.0 { cost } else { self.cost + WEIGHT * (cost - self.cost) };
    }

    /// Rows that a wait is expected to bring.
    pub fn expected(&self, delay: Duration) -> f64 {
        self.rate * delay.as_secs_f64() * self.luck
    }

    /// Whether to wait with so many rows at hand.
    pub fn pays(&self, rows: usize, delay: Duration) -> bool {
        let gain = self.expected(delay);
        gain >= 1.0 && gain * self.cost > rows as f64 * delay.as_secs_f64()
    }

    /// A batch starts; if it has waited, it brought so many rows of those that were expected.
    pub fn started(&mut self, now: Instant, waited: Option<(usize, f64)>) {
        if let Some(since) = self.since {
            let elapsed = now.saturating_duration_since(since).as_secs_f64().max(1e-6);
            // After a pause the last second counts for all that was before it.
            let weight = if elapsed > 1.0 { 1.0 } else { WEIGHT };
            self.rate += weight * (self.arrived as f64 / elapsed - self.rate);
        }
        self.since = Some(now);
        self.arrived = 0;
        match waited {
            Some((brought, expected)) => {
                let share = (brought as f64 / expected.max(1.0)).min(1.0);
                self.luck += 0.5 * (share - self.luck);
            }
            None => self.luck += HOPE * (1.0 - self.luck),
        }
    }

    /// Seconds until so many rows have been run, in batches of `most`, `instances` at a time.
    pub fn seconds(&self, rows: usize, most: usize, instances: usize) -> f64 {
        rows as f64 / most.max(1) as f64 / instances.max(1) as f64 * self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(1);

    fn paced(rows: usize, gap: Duration, cost: Duration) -> Pace {
        let mut pace = Pace::default();
        let start = Instant::now();
        for number in 0..100 {
            pace.arrived(rows, start);
            pace.ran(cost);
            pace.started(start + gap * number, None);
        }
        pace
    }

    #[test]
    fn nobody_waits_under_light_load() {
        assert!(!Pace::default().pays(1, DELAY));
        assert!(!paced(1, Duration::from_millis(100), Duration::from_millis(10)).pays(1, DELAY));
    }

    #[test]
    fn nobody_waits_for_a_model_that_is_quicker_than_waiting() {
        assert!(!paced(8, Duration::from_micros(200), Duration::from_micros(50)).pays(8, DELAY));
    }

    #[test]
    fn a_wait_ends_when_nobody_comes() {
        let pace = paced(40, Duration::from_millis(10), Duration::from_millis(10));
        let began = Instant::now() + Duration::from_secs(9);
        assert!(pace.until(began, Duration::from_secs(60)) < began + Duration::from_millis(10));
        assert_eq!(pace.until(began, Duration::from_micros(10)), began + Duration::from_micros(10));
    }

    #[test]
    fn a_slow_model_under_load_waits_until_that_was_in_vain() {
        let mut pace = paced(40, Duration::from_millis(10), Duration::from_millis(10));
        assert!(pace.pays(8, DELAY));
        let expected = pace.expected(DELAY);
        let mut now = Instant::now() + Duration::from_secs(2);
        for _ in 0..4 {
            now += Duration::from_millis(10);
            pace.arrived(40, now);
            pace.started(now, Some((0, expected)));
        }
        assert!(!pace.pays(8, DELAY));
        for _ in 0..300 {
            now += Duration::from_millis(10);
            pace.arrived(40, now);
            pace.started(now, None);
        }
        assert!(pace.pays(8, DELAY));
    }
}
