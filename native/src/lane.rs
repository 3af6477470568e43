//! A lane: where the requests of one model version wait, become batches, and get their answers.
//!
//! As `vitrify.serve.lanes.threads` says it. Nothing is encoded or sent while the lane is locked.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::alarm::Alarm;
use crate::batch::{assemble, check, share, Batch, Output, Slice};
use crate::fault::{Fault, Kind};
use crate::figures::Figures;
use crate::lane_job::{lock, pieces, Job, Piece, Times};
use crate::lane_pace::Pace;
use crate::lane_queue::Queue;
use crate::lane_spec::LaneSpec;

/// A request that was not taken.
pub struct Refused {
    pub fault: Fault,
    /// Whether the lane is closed: another may have taken its place.
    pub closed: bool,
}

struct Running {
    number: u64,
    started: Instant,
    pieces: Vec<Piece>,
    /// It took too long: its requests have their answers.
    stuck: bool,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// Requests and their bytes that wait.
    waiting: usize,
    bytes: usize,
    running: Vec<Running>,
    /// Threads that are giving answers.
    finishing: usize,
    closing: bool,
    numbers: u64,
    pace: Pace,
    figures: Figures,
}

impl State {
    fn enqueue(&mut self, piece: Piece, front: bool) {
        if piece.job.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.waiting += 1;
            self.bytes += piece.job.bytes;
        }
        if front {
            self.queue.push_front(piece);
        } else {
            self.queue.push(piece);
        }
    }

    /// A piece has left the queue.
    fn dequeued(&mut self, piece: &Piece) {
        if piece.job.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.waiting -= 1;
            self.bytes -= piece.job.bytes;
        }
    }

    fn stuck(&self) -> usize {
        self.running.iter().filter(|running| running.stuck).count()
    }

    fn done(&self) -> bool {
        self.queue.is_empty() && self.running.is_empty() && self.finishing == 0
    }
}

/// What has become of a request.
type Ended<'a> = (Arc<Job>, Result<Vec<Slice<'a>>, Fault>);

/// How a wait for more rows began.
struct Wait {
    began: Instant,
    rows: usize,
    expected: f64,
}

/// The lane of one model version.
pub struct Lane {
    pub spec: LaneSpec,
    state: Mutex<State>,
    due: Condvar,
    idle: Condvar,
    alarm: Arc<Alarm>,
    /// The same as the state's `closing`, to be asked without a lock.
    closed: AtomicBool,
}

impl Lane {
    /// Open one.
    pub fn new(spec: LaneSpec, alarm: Arc<Alarm>) -> Lane {
        Lane {
            spec,
            state: Mutex::default(),
            due: Condvar::new(),
            idle: Condvar::new(),
            alarm,
            closed: AtomicBool::new(false),
        }
    }

    /// Take a request, or say why not.
    pub fn submit(&self, job: &Arc<Job>) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        if let Err(refused) = self.admit(&state, job) {
            state.figures.fail(refused.fault.kind);
            return Err(refused);
        }
        for piece in pieces(job, self.spec.rows) {
            state.pace.arrived(piece.rows, job.admitted);
            state.enqueue(piece, false);
        }
        state.figures.admitted();
        drop(state);
        self.due.notify_one();
        self.alarm.set(job.deadline);
        Ok(())
    }

    fn admit(&self, state: &State, job: &Job) -> Result<(), Refused> {
        let name = &self.spec.model;
        let refuse = |kind, message| Err(Refused { fault: Fault::new(kind, message), closed: false });
        if state.closing {
            let fault = Fault::new(Kind::Unavailable, format!("model {name:?} is being unloaded"));
            return Err(Refused { fault, closed: true });
        }
        if state.stuck() >= self.spec.instances {
            return refuse(Kind::Unavailable, format!("model {name:?} has not answered for a long time"));
        }
        if job.bytes > self.spec.queue_bytes {
            let most = self.spec.queue_bytes;
            let message = format!("the inputs are {} bytes; the queue of model {name:?} holds {most}", job.bytes);
            return refuse(Kind::LimitExceeded, message);
        }
        if state.waiting < self.spec.queue && state.bytes + job.bytes <= self.spec.queue_bytes {
            return Ok(());
        }
        let message = if state.waiting < self.spec.queue {
            let (bytes, most) = (state.bytes, self.spec.queue_bytes);
            format!(
                "the queue of model {name:?} has {bytes} bytes waiting, and takes at most {most}; given are {} more",
                job.bytes
            )
        } else {
            format!("the queue of model {name:?} is full: {} requests wait", state.waiting)
        };
        let mut fault = Fault::new(Kind::Busy, message);
        let seconds = state.pace.seconds(state.queue.rows(), self.spec.rows, self.spec.instances);
        fault.retry_after = seconds.ceil().clamp(1.0, 60.0) as u32;
        Err(Refused { fault, closed: false })
    }

    /// Wait for the next batch; none when the lane is closed and nothing waits any more.
    pub fn take(&self) -> Option<Batch> {
        let mut state = lock(&self.state);
        let mut wait: Option<Wait> = None;
        loop {
            if state.queue.is_empty() {
                if state.closing {
                    return None;
                }
                wait = None;
                state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = Instant::now();
            if let Some(left) = self.patience(&state, &mut wait, now) {
                state = self.due.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let (expired, due) = split(state.queue.batch(self.spec.rows), &mut state, now);
            if !expired.is_empty() {
                state.finishing += 1;
                drop(state);
                self.settle(expired.iter().map(late), Duration::default());
                state = self.finish();
            }
            if !due.is_empty() {
                let waited = wait.take().map(|wait| (state.queue.rows() + rows(&due), wait));
                let brought = waited.map(|(rows, wait)| (rows.saturating_sub(wait.rows), wait.expected));
                return Some(self.start(state, due, now, brought));
            }
        }
    }

    /// How much longer to wait for more rows; none to go at once.
    fn patience(&self, state: &State, wait: &mut Option<Wait>, now: Instant) -> Option<Duration> {
        let rows = state.queue.rows();
        let alone = self.spec.rows <= 1 || state.queue.first().map_or(true, |piece| piece.alone);
        if state.closing || alone || rows >= self.spec.rows {
            return None;
        }
        if wait.is_none() && state.pace.pays(rows, self.spec.delay) {
            let expected = state.pace.expected(self.spec.delay);
            *wait = Some(Wait { began: now, rows, expected });
        }
        let until = state.pace.until(wait.as_ref()?.began, self.spec.delay);
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    fn start(
        &self,
        mut state: MutexGuard<State>,
        due: Vec<Piece>,
        now: Instant,
        brought: Option<(usize, f64)>,
    ) -> Batch {
        state.pace.started(now, brought);
        state.numbers += 1;
        let number = state.numbers;
        let mut waited = Vec::with_capacity(due.len());
        for piece in &due {
            waited.push(now.saturating_duration_since(piece.job.admitted));
            if piece.from == 0 && !piece.job.begun.swap(true, Ordering::Relaxed) {
                piece.job.started(waited[waited.len() - 1]);
                state.figures.queued.add(waited[waited.len() - 1].as_secs_f64());
            }
        }
        state.running.push(Running { number, started: now, pieces: due.clone(), stuck: false });
        let more = !state.queue.is_empty();
        drop(state);
        if more {
            self.due.notify_one();
        }
        self.alarm.set(now + self.spec.run_seconds);
        assemble(number, &due, &waited)
    }

    /// A batch has been run: take it from the list. None of its requests where they have their answers.
    fn end(&self, number: u64) -> Option<(Vec<Piece>, Duration)> {
        let mut state = lock(&self.state);
        let place = state.running.iter().position(|running| running.number == number)?;
        let running = state.running.swap_remove(place);
        let computed = running.started.elapsed();
        state.figures.batch(running.pieces.iter().map(|piece| piece.rows).sum(), computed);
        state.pace.ran(computed);
        state.finishing += 1;
        Some((if running.stuck { Vec::new() } else { running.pieces }, computed))
    }

    /// Give the answers of a batch, or say that the outputs do not fit it.
    pub fn answer(&self, number: u64, outputs: &[Output]) -> Result<(), Fault> {
        let (pieces, computed) = match self.end(number) {
            Some(found) => found,
            None => return Ok(()),
        };
        let ports = &self.spec.outputs;
        let result = if pieces.is_empty() { Ok(()) } else { check(ports, outputs, rows(&pieces)) };
        if let Err(fault) = &result {
            self.failed(pieces, computed, fault);
        } else {
            let mut next = 0;
            let ended = pieces.iter().filter_map(|piece| {
                let from = next;
                next += piece.rows;
                let slices = share(ports, outputs, piece, from);
                if piece.whole() {
                    return Some((piece.job.clone(), Ok(slices)));
                }
                let whole = piece.job.rejoin(piece.from, piece.rows, slices.into_iter().map(Slice::keep).collect())?;
                Some((piece.job.clone(), whole.map(|tensors| tensors.into_iter().map(Slice::from).collect())))
            });
            self.settle(ended, computed);
        }
        drop(self.finish());
        result
    }

    /// A batch failed.
    pub fn fail(&self, number: u64, fault: &Fault) {
        if let Some((pieces, computed)) = self.end(number) {
            self.failed(pieces, computed, fault);
            drop(self.finish());
        }
    }

    /// Where it is the model's doing and there are several requests, each is run again by itself, once: one bad request
    /// harms no other.
    fn failed(&self, pieces: Vec<Piece>, computed: Duration, fault: &Fault) {
        let own = matches!(fault.kind, Kind::Model | Kind::Signature);
        if !own || pieces.len() < 2 {
            return self.settle(pieces.iter().map(|piece| (piece.job.clone(), Err(fault.clone()))), computed);
        }
        let mut state = lock(&self.state);
        for mut piece in pieces.into_iter().rev().filter(|piece| !piece.job.answered()) {
            piece.alone = true;
            state.enqueue(piece, true);
        }
        drop(state);
        self.due.notify_one();
    }

    /// Give answers to those that have none; `finishing` is counted by the caller.
    fn settle<'a>(&self, ended: impl Iterator<Item = Ended<'a>>, computed: Duration) {
        let claimed: Vec<_> = ended
            .filter_map(|(job, result)| {
                let answer = job.claim()?;
                Some((job, answer, result))
            })
            .collect();
        if claimed.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        for (job, _, result) in &claimed {
            match result {
                Ok(_) => {
                    state.figures.ok += 1;
                    state.figures.answered.add(job.admitted.elapsed().as_secs_f64());
                }
                Err(fault) => state.figures.fail(fault.kind),
            }
        }
        drop(state);
        for (job, answer, result) in claimed {
            let right = result.is_ok();
            let times = Times { queued: job.queued(), computed };
            // One answer that cannot be written must not keep the others.
            let told = catch_unwind(AssertUnwindSafe(|| answer.done(&job, result, times)));
            if let (true, Some(kind)) = (right, told.unwrap_or(Some(Kind::Internal))) {
                let mut state = lock(&self.state);
                state.figures.ok -= 1;
                state.figures.fail(kind);
            }
        }
    }

    fn finish(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        state.finishing -= 1;
        if state.done() {
            self.idle.notify_all();
        }
        state
    }

    /// Answer what has expired, let go of what nobody waits for, and say which models hang. Returns when to look next.
    pub fn sweep(&self, now: Instant) -> Option<Instant> {
        let most = self.spec.run_seconds;
        let mut state = lock(&self.state);
        let mut over = state.queue.purge(|piece| piece.job.deadline <= now || piece.job.answered() || piece.job.gone());
        for piece in &over {
            state.dequeued(piece);
        }
        let mut hung: Vec<Piece> = Vec::new();
        for running in &mut state.running {
            if !running.stuck && now >= running.started + most {
                running.stuck = true;
                hung.append(&mut running.pieces);
            }
            let done = |piece: &&Piece| piece.job.deadline <= now || piece.job.gone();
            over.extend(running.pieces.iter().filter(done).cloned());
        }
        let runs = state.running.iter().filter(|running| !running.stuck);
        let ran = runs.clone().flat_map(|running| &running.pieces).filter(|piece| !piece.job.answered());
        let deadlines =
            state.queue.iter().chain(ran).map(|piece| piece.job.deadline).filter(|deadline| *deadline > now);
        let next = deadlines.chain(runs.map(|running| running.started + most)).min();
        for piece in over.iter().filter(|piece| piece.job.gone()) {
            if piece.job.claim().is_some() {
                state.figures.left();
            }
        }
        state.finishing += 1;
        drop(state);
        self.settle(over.iter().filter(|piece| piece.job.deadline <= now).map(late), Duration::default());
        let message = format!("the model has been running for more than the {} s that it may", most.as_secs_f64());
        let fault = Fault::new(Kind::Unavailable, message);
        self.settle(hung.into_iter().map(|piece| (piece.job, Err(fault.clone()))), most);
        drop(self.finish());
        next
    }

    /// Take nothing more and run what waits; true when that is done within so long, else the rest fails.
    pub fn close(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = lock(&self.state);
        state.closing = true;
        self.closed.store(true, Ordering::Release);
        self.due.notify_all();
        while !state.done() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.idle.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.done() {
            return true;
        }
        let mut rest = state.queue.purge(|_| true);
        for piece in &rest {
            state.dequeued(piece);
        }
        for running in &mut state.running {
            running.stuck = true;
            rest.extend(std::mem::take(&mut running.pieces));
        }
        state.finishing += 1;
        drop(state);
        let fault =
            Fault::new(Kind::Unavailable, format!("model {:?} was unloaded before it answered", self.spec.model));
        self.settle(rest.into_iter().map(|piece| (piece.job, Err(fault.clone()))), Duration::default());
        drop(self.finish());
        self.due.notify_all();
        false
    }

    /// Whether it takes nothing more.
    pub fn closing(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What it has done, as JSON.
    pub fn figures(&self) -> String {
        let state = lock(&self.state);
        let running = state.running.iter().map(|running| running.pieces.len()).sum();
        state.figures.json(state.waiting, running, state.stuck() > 0)
    }

    /// A request was refused before it reached the queue.
    pub fn refused(&self, kind: Kind) {
        lock(&self.state).figures.fail(kind);
    }
}

fn rows(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.rows).sum()
}

/// Those of a batch that have expired, and those that are due; the rest is let go.
fn split(batch: Vec<Piece>, state: &mut State, now: Instant) -> (Vec<Piece>, Vec<Piece>) {
    let (mut expired, mut due) = (Vec::new(), Vec::new());
    for piece in batch {
        state.dequeued(&piece);
        if piece.job.answered() {
            continue;
        }
        if piece.job.gone() {
            if piece.job.claim().is_some() {
                state.figures.left();
            }
        } else if piece.job.deadline <= now {
            expired.push(piece);
        } else {
            due.push(piece);
        }
    }
    (expired, due)
}

fn late(piece: &Piece) -> Ended<'static> {
    let waited = piece.job.admitted.elapsed().as_secs_f64();
    let place = if piece.job.begun.load(Ordering::Relaxed) { "was being run" } else { "waited in the queue" };
    let message = format!("the deadline passed after {waited:.3} s, while the request {place}");
    (piece.job.clone(), Err(Fault::new(Kind::Expired, message)))
}
