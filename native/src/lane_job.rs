//! One request in a lane: its arrays, whom it is for, and what has become of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::Slice;
use crate::fault::{Fault, Kind};
use crate::tensor::{Datatype, Tensor};

/// Lock, whatever became of the thread that held it before.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One input of a request, by its place in the model.
#[derive(Debug)]
pub struct Input {
    pub index: usize,
    pub datatype: Datatype,
    pub shape: Vec<u64>,
    pub data: Vec<u8>,
    /// For BYTES: where each element begins, with its length, and the end.
    pub offsets: Vec<usize>,
}

impl Input {
    /// The bytes of some rows, all of which there are.
    pub fn rows(&self, from: usize, rows: usize) -> &[u8] {
        rows_of(&self.data, &self.offsets, self.shape.first().map_or(0, |all| *all as usize), from, rows)
    }
}

/// The bytes of some of so many rows; `offsets` are those of BYTES elements, or none.
pub fn rows_of<'a>(data: &'a [u8], offsets: &[usize], all: usize, from: usize, rows: usize) -> &'a [u8] {
    if all == 0 {
        return &[];
    }
    if offsets.is_empty() {
        let stride = data.len() / all;
        return &data[from * stride..(from + rows) * stride];
    }
    let stride = (offsets.len() - 1) / all;
    &data[offsets[from * stride]..offsets[(from + rows) * stride]]
}

/// Where each of `count` BYTES elements begins, and the end; none where the data is not exactly so many.
pub fn element_offsets(data: &[u8], count: usize) -> Option<Vec<usize>> {
    if count > data.len() / 4 {
        return None;
    }
    let mut offsets = Vec::with_capacity(count + 1);
    let mut at = 0usize;
    for _ in 0..count {
        offsets.push(at);
        let prefix = data.get(at..at + 4)?;
        let length = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        at = at.checked_add(4)?.checked_add(length)?;
        if at > data.len() {
            return None;
        }
    }
    offsets.push(at);
    if at == data.len() {
        Some(offsets)
    } else {
        None
    }
}

/// What is told of a request when it ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    pub queued: Duration,
    pub computed: Duration,
}

/// Whom the answer is for: a client over the wire, or Python.
pub trait Answer: Send {
    /// Give the answer. What it could not be written as is returned: the client has been told.
    fn done(self: Box<Self>, job: &Job, result: Result<Vec<Slice>, Fault>, times: Times) -> Option<Kind>;
    /// Whether nobody waits any more.
    fn gone(&self) -> bool;
}

/// One request.
pub struct Job {
    pub id: String,
    pub client: String,
    pub inputs: Vec<Input>,
    pub rows: usize,
    /// Of its inputs.
    pub bytes: usize,
    /// Only requests of equal groups share a batch.
    pub group: Vec<u64>,
    /// Which outputs, by their place in the model; none for all.
    pub outputs: Vec<usize>,
    /// 1 comes first; normal is the last.
    pub priority: u32,
    pub admitted: Instant,
    pub deadline: Instant,
    /// Whether it is run whole and by itself.
    pub alone: bool,
    answer: Mutex<Option<Box<dyn Answer>>>,
    answered: AtomicBool,
    parts: Mutex<Vec<Part>>,
    /// Rows of which there are outputs.
    done: AtomicUsize,
    /// Pieces that still wait: only the lane counts them.
    pub waiting: AtomicUsize,
    first: Mutex<Duration>,
    /// Whether its first piece has been run.
    pub begun: AtomicBool,
}

/// What a request asks beside its arrays.
#[derive(Debug, Clone)]
pub struct Terms {
    pub id: String,
    pub client: String,
    pub outputs: Vec<usize>,
    /// As the caller said it: 0 for none.
    pub priority: u32,
    pub admitted: Instant,
    pub deadline: Instant,
}

impl Job {
    /// Make one.
    pub fn new(inputs: Vec<Input>, terms: Terms, answer: Box<dyn Answer>) -> Job {
        let rows = inputs.first().and_then(|input| input.shape.first()).map_or(0, |rows| *rows as usize);
        let even = inputs.iter().all(|input| input.shape.first().map_or(false, |count| *count as usize == rows));
        Job {
            bytes: inputs.iter().map(|input| input.data.len()).sum(),
            group: group(&inputs),
            alone: rows == 0 || !even,
            inputs,
            rows,
            id: terms.id,
            client: terms.client,
            outputs: terms.outputs,
            priority: if terms.priority == 0 { u32::MAX } else { terms.priority },
            admitted: terms.admitted,
            deadline: terms.deadline,
            answer: Mutex::new(Some(answer)),
            answered: AtomicBool::new(false),
            parts: Mutex::new(Vec::new()),
            done: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            first: Mutex::new(Duration::default()),
            begun: AtomicBool::new(false),
        }
    }

    /// Whether it has its answer.
    pub fn answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Whether it has none, and nobody waits for it.
    pub fn gone(&self) -> bool {
        lock(&self.answer).as_ref().map_or(false, |answer| answer.gone())
    }

    /// Take the right to answer it, if nobody has: whoever has it must give the answer.
    pub fn claim(&self) -> Option<Box<dyn Answer>> {
        let answer = lock(&self.answer).take();
        self.answered.store(true, Ordering::Release);
        lock(&self.parts).clear();
        answer
    }

    /// Keep the outputs of one piece. With the last one, everything in order.
    pub fn rejoin(&self, from: usize, rows: usize, outputs: Vec<Tensor>) -> Option<Result<Vec<Tensor>, Fault>> {
        let mut parts = lock(&self.parts);
        parts.push(Part { from, outputs });
        if self.done.fetch_add(rows, Ordering::Relaxed) + rows < self.rows {
            return None;
        }
        let mut all = std::mem::take(&mut *parts);
        drop(parts);
        all.sort_by_key(|part| part.from);
        let mut rest = all.into_iter();
        let mut whole = rest.next().map_or_else(Vec::new, |part| part.outputs);
        for part in rest {
            for (one, next) in whole.iter_mut().zip(part.outputs) {
                if one.datatype != next.datatype || one.shape[1..] != next.shape[1..] {
                    let message = format!("output {:?} has another shape in another part of the request", one.name);
                    return Some(Err(Fault::new(Kind::Model, message)));
                }
                one.shape[0] += next.shape[0];
                one.data.extend_from_slice(&next.data);
            }
        }
        Some(Ok(whole))
    }

    /// How long its first piece waited: set once, read at the end.
    pub fn started(&self, waited: Duration) {
        *lock(&self.first) = waited;
    }

    /// How long its first piece waited.
    pub fn queued(&self) -> Duration {
        *lock(&self.first)
    }
}

/// The outputs of one piece that has been run.
struct Part {
    from: usize,
    outputs: Vec<Tensor>,
}

fn group(inputs: &[Input]) -> Vec<u64> {
    let mut group = Vec::with_capacity(inputs.len() * 4);
    for input in inputs {
        group.extend([input.index as u64, input.datatype as u64, input.shape.len() as u64]);
        group.extend(input.shape.iter().skip(1));
    }
    group
}

/// Some rows of one request: all of them, or as many as a batch may have.
#[derive(Clone)]
pub struct Piece {
    pub job: Arc<Job>,
    pub from: usize,
    pub rows: usize,
    /// Whether it must share its batch with nobody.
    pub alone: bool,
}

impl Piece {
    /// Whether it is all of its request.
    pub fn whole(&self) -> bool {
        self.rows == self.job.rows
    }
}

/// Cut a request into pieces of at most `most` rows; with one row a batch, and alone, a request stays whole.
pub fn pieces(job: &Arc<Job>, most: usize) -> Vec<Piece> {
    let alone = job.alone || most <= 1;
    if alone || job.rows <= most {
        return vec![Piece { job: job.clone(), from: 0, rows: job.rows, alone }];
    }
    (0..job.rows)
        .step_by(most)
        .map(|from| Piece { job: job.clone(), from, rows: most.min(job.rows - from), alone: false })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::mpsc::{channel, Receiver, Sender};

    pub(crate) type Told = Result<Vec<Tensor>, Fault>;

    struct Teller(Sender<Told>, Arc<AtomicBool>);

    impl Answer for Teller {
        fn done(self: Box<Self>, _: &Job, result: Result<Vec<Slice>, Fault>, _: Times) -> Option<Kind> {
            let _ = self.0.send(result.map(|slices| slices.into_iter().map(Slice::keep).collect()));
            None
        }

        fn gone(&self) -> bool {
            self.1.load(Ordering::Relaxed)
        }
    }

    pub(crate) struct Caller {
        pub job: Arc<Job>,
        pub told: Receiver<Told>,
        pub gone: Arc<AtomicBool>,
    }

    /// A request of rows of one float; each row holds a number of its own, from `first` on.
    pub(crate) fn caller(first: usize, rows: usize, priority: u32, width: u64, deadline: Duration) -> Caller {
        let gone = Arc::new(AtomicBool::new(false));
        let (sender, told) = channel();
        let floats = (first..first + rows).flat_map(|row| vec![row as f32; width as usize]);
        let data = floats.flat_map(|number| number.to_le_bytes()).collect();
        let shape = vec![rows as u64, width];
        let input = Input { index: 0, datatype: Datatype::Fp32, shape, data, offsets: Vec::new() };
        let now = Instant::now();
        let (id, client) = (first.to_string(), String::new());
        let terms = Terms { id, client, outputs: Vec::new(), priority, admitted: now, deadline: now + deadline };
        let job = Arc::new(Job::new(vec![input], terms, Box::new(Teller(sender, gone.clone()))));
        Caller { job, told, gone }
    }

    #[test]
    fn a_large_request_is_cut_and_put_together_in_any_order() {
        let one = caller(0, 10, 0, 1, Duration::from_secs(9));
        let cut = pieces(&one.job, 4);
        assert_eq!(cut.iter().map(|piece| (piece.from, piece.rows)).collect::<Vec<_>>(), [(0, 4), (4, 4), (8, 2)]);
        let mut whole = None;
        for piece in cut.iter().rev() {
            let data = one.job.inputs[0].rows(piece.from, piece.rows).to_vec();
            let shape = vec![piece.rows as u64];
            assert!(whole.is_none());
            let output = Tensor { name: "y".into(), datatype: Datatype::Fp32, shape, data };
            whole = one.job.rejoin(piece.from, piece.rows, vec![output]);
        }
        let whole = whole.unwrap().unwrap();
        assert_eq!((whole[0].shape[0], &whole[0].data), (10, &one.job.inputs[0].data));
    }

    #[test]
    fn a_request_is_answered_once() {
        let one = caller(0, 1, 0, 1, Duration::from_secs(9));
        assert!(!one.job.answered());
        assert!(one.job.claim().is_some());
        assert!(one.job.claim().is_none());
        assert!(one.job.answered());
    }

    #[test]
    fn elements_are_exactly_as_many_as_there_should_be() {
        let data = [1, 0, 0, 0, b'a', 0, 0, 0, 0];
        assert_eq!(element_offsets(&data, 2).unwrap(), [0, 5, 9]);
        for (data, count) in
            [(&data[..], 1), (&data[..], 3), (&data[..8], 2), (&[9, 0, 0, 0, 1][..], 1), (&[255; 4][..], 1)]
        {
            assert!(element_offsets(data, count).is_none());
        }
        assert_eq!(element_offsets(&[], 0).unwrap(), [0]);
        assert!(element_offsets(&[], usize::MAX).is_none());
    }

    #[test]
    fn rows_of_bytes_are_whole_elements() {
        let data = [1, 0, 0, 0, b'a', 0, 0, 0, 0, 2, 0, 0, 0, b'b', b'c', 0, 0, 0, 0];
        let offsets = element_offsets(&data, 4).unwrap();
        assert_eq!(rows_of(&data, &offsets, 2, 1, 1), &data[9..]);
    }
}
