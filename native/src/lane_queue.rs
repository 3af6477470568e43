//! The queue of a lane: by priority, then by arrival.

use std::collections::{BTreeMap, VecDeque};

use crate::lane_job::Piece;

/// What waits. A later request that fits a batch may pass one of the same priority that does not; the first one is
/// always taken, so that none waits for ever.
#[derive(Default)]
pub struct Queue {
    levels: BTreeMap<u32, VecDeque<Piece>>,
    rows: usize,
}

impl Queue {
    /// Rows that wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The piece that is taken next.
    pub fn first(&self) -> Option<&Piece> {
        self.levels.values().next().and_then(|level| level.front())
    }

    /// Everything that waits, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.levels.values().flatten()
    }

    /// Add one behind all of its priority.
    pub fn push(&mut self, piece: Piece) {
        self.rows += piece.rows;
        self.levels.entry(piece.job.priority).or_default().push_back(piece);
    }

    /// Put one before all of its priority.
    pub fn push_front(&mut self, piece: Piece) {
        self.rows += piece.rows;
        self.levels.entry(piece.job.priority).or_default().push_front(piece);
    }

    /// Take out all for which it is so.
    pub fn purge(&mut self, mut out: impl FnMut(&Piece) -> bool) -> Vec<Piece> {
        let mut gone = Vec::new();
        for level in self.levels.values_mut() {
            level.retain(|piece| {
                let leaves = out(piece);
                if leaves {
                    gone.push(piece.clone());
                }
                !leaves
            });
        }
        self.levels.retain(|_, level| !level.is_empty());
        self.rows -= gone.iter().map(|piece| piece.rows).sum::<usize>();
        gone
    }

    /// Take the next batch: the first piece, and what fits to it, at most so many rows.
    pub fn batch(&mut self, most: usize) -> Vec<Piece> {
        let mut batch: Vec<Piece> = Vec::new();
        let mut rows = 0;
        let levels: Vec<u32> = self.levels.keys().copied().collect();
        for key in levels {
            let (complete, emptied) = match self.levels.get_mut(&key) {
                Some(level) => (fill(level, &mut batch, &mut rows, most), level.is_empty()),
                None => continue,
            };
            if emptied {
                self.levels.remove(&key);
            }
            if complete {
                break;
            }
        }
        self.rows -= rows;
        batch
    }
}

/// Move what fits from one level into the batch. True where no lower level may add to it: it is full, or somebody of
/// this level has to wait.
fn fill(level: &mut VecDeque<Piece>, batch: &mut Vec<Piece>, rows: &mut usize, most: usize) -> bool {
    let mut passed: Vec<Piece> = Vec::new();
    let mut full = false;
    while let Some(piece) = level.pop_front() {
        let fits = match batch.first() {
            None => true,
            Some(first) => !first.alone && !piece.alone && first.job.group == piece.job.group,
        };
        if !fits {
            passed.push(piece);
            if batch.first().map_or(false, |first| first.alone) {
                break;
            }
        } else if !batch.is_empty() && *rows + piece.rows > most {
            full = true;
            passed.push(piece);
            break;
        } else {
            *rows += piece.rows;
            batch.push(piece);
            if *rows >= most {
                full = true;
                break;
            }
        }
    }
    let complete = full || !passed.is_empty() || batch.first().map_or(false, |first| first.alone);
    while let Some(piece) = passed.pop() {
        level.push_front(piece);
    }
    complete
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_job::pieces;
    use crate::lane_job::tests::caller;
    use std::time::Duration;

    fn queue(jobs: &[(usize, usize, u32, u64)], most: usize) -> Queue {
        let mut queue = Queue::default();
        for (first, rows, priority, width) in jobs {
            for piece in pieces(&caller(*first, *rows, *priority, *width, Duration::from_secs(9)).job, most) {
                queue.push(piece);
            }
        }
        queue
    }

    fn taken(queue: &mut Queue, most: usize) -> Vec<(String, usize)> {
        queue.batch(most).iter().map(|piece| (piece.job.id.clone(), piece.rows)).collect()
    }

    fn named(batch: &[(&str, usize)]) -> Vec<(String, usize)> {
        batch.iter().map(|(id, rows)| ((*id).to_owned(), *rows)).collect()
    }

    #[test]
    fn a_batch_is_filled_in_the_order_of_arrival() {
        let mut queue = queue(&[(1, 2, 0, 1), (2, 1, 0, 1), (3, 2, 0, 1)], 4);
        assert_eq!(taken(&mut queue, 4), named(&[("1", 2), ("2", 1)]));
        assert_eq!(taken(&mut queue, 4), named(&[("3", 2)]));
        assert!(queue.is_empty());
        assert_eq!(queue.rows(), 0);
    }

    #[test]
    fn a_higher_priority_is_first_and_normal_is_last() {
        let mut queue = queue(&[(1, 1, 0, 1), (2, 1, 2, 1), (3, 1, 1, 1)], 4);
        assert_eq!(taken(&mut queue, 4), named(&[("3", 1), ("2", 1), ("1", 1)]));
    }

    #[test]
    fn only_equals_share_a_batch_and_a_lower_priority_passes_nobody() {
        let mut queue = queue(&[(1, 1, 1, 1), (2, 1, 1, 2), (3, 1, 1, 1), (4, 1, 0, 1)], 4);
        assert_eq!(taken(&mut queue, 4), named(&[("1", 1), ("3", 1)]));
        assert_eq!(taken(&mut queue, 4), named(&[("2", 1)]));
        assert_eq!(taken(&mut queue, 4), named(&[("4", 1)]));
    }

    #[test]
    fn the_pieces_of_a_large_request_share_batches_with_others() {
        let mut queue = queue(&[(1, 5, 0, 1), (2, 3, 0, 1), (3, 1, 0, 1)], 4);
        assert_eq!(taken(&mut queue, 4), named(&[("1", 4)]));
        assert_eq!(taken(&mut queue, 4), named(&[("1", 1), ("2", 3)]));
        assert_eq!(taken(&mut queue, 4), named(&[("3", 1)]));
    }

    #[test]
    fn with_one_row_a_batch_each_request_is_whole_and_by_itself() {
        let mut queue = queue(&[(1, 5, 0, 1), (2, 1, 0, 1), (3, 1, 0, 1)], 1);
        assert_eq!(taken(&mut queue, 1), named(&[("1", 5)]));
        assert_eq!(taken(&mut queue, 1), named(&[("2", 1)]));
        assert_eq!(taken(&mut queue, 1), named(&[("3", 1)]));
    }

    #[test]
    fn what_is_purged_is_out() {
        let mut queue = queue(&[(1, 2, 0, 1), (2, 1, 1, 1)], 4);
        assert_eq!(queue.purge(|piece| piece.job.id == "1").len(), 1);
        assert_eq!(queue.rows(), 1);
        queue.purge(|_| true);
        assert!(queue.is_empty() && queue.first().is_none());
    }
}
