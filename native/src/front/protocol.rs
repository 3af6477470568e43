//! What the loop and a connection's protocol know of each other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::outbox::{Outbox, Said};
use super::outgoing::Outgoing;
use crate::service::{Limits, Peer, Service};

/// What a protocol works with for one turn.
pub(crate) struct Desk<'a> {
    pub service: &'a Arc<dyn Service>,
    pub limits: &'a Limits,
    pub outbox: &'a Arc<Outbox>,
    pub token: u64,
    pub peer: &'a Peer,
    pub now: Instant,
    pub draining: bool,
    pub out: &'a mut Outgoing,
}

impl Desk<'_> {
    /// Whether so many seconds have passed.
    pub fn past(&self, since: Instant, seconds: f64) -> bool {
        self.now.saturating_duration_since(since) > duration(seconds)
    }
}

/// Seconds as a setting has them; what no duration can hold is for ever.
pub(crate) fn duration(seconds: f64) -> Duration {
    if (0.0..1e9).contains(&seconds) {
        Duration::from_secs_f64(seconds)
    } else {
        Duration::MAX
    }
}

/// What a connection wants of its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Bytes.
    Read,
    /// No bytes for now: enough is unanswered.
    Pause,
    /// What waits is to be written, then comes the end.
    Finish,
}

/// A protocol's side of one connection.
pub(crate) trait Protocol: Send {
    /// Take bytes and return how many; the others come again, with more behind them.
    fn receive(&mut self, desk: &mut Desk<'_>, bytes: &[u8]) -> usize;
    /// Take an answer to a request, or a piece of it.
    fn answer(&mut self, desk: &mut Desk<'_>, request: u64, said: Said);
    /// Write more: there is room.
    fn pump(&mut self, desk: &mut Desk<'_>);
    /// Look at the clock.
    fn tick(&mut self, desk: &mut Desk<'_>);
    /// Take no more requests: `false` where some may still be on their way, `true` when that time is over.
    fn drain(&mut self, desk: &mut Desk<'_>, over: bool);
    /// The client has ended its side: it waits for nothing more.
    fn left(&mut self);
    /// Whether more than so many bytes wait for the client, beside the largest answer, which may be of any size.
    fn beyond(&self, out: &Outgoing, most: usize) -> bool;
    /// Whether a request was taken that is not answered.
    fn unanswered(&self) -> bool;
    fn flow(&self) -> Flow;
}
