//! What a connection has still to write: small things gathered in one buffer, large bodies as they are.

use std::collections::VecDeque;
use std::io::{self, Write};

/// Up to here a body is copied behind what waits already, so that both go with one call.
const COPIED: usize = 32 * 1024;
/// A gathering buffer of this size is left alone, so that a slow client's does not grow by doubling.
const GATHERED: usize = 128 * 1024;

/// A queue of bytes.
#[derive(Default)]
pub(crate) struct Outgoing {
    segments: VecDeque<Vec<u8>>,
    /// Bytes of the first segment that were written.
    written: usize,
    waiting: usize,
    /// Of all time.
    total: u64,
    /// Whether the last segment may be appended to.
    open: bool,
    spare: Vec<u8>,
}

impl Outgoing {
    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether more than so many bytes wait beside the largest answer, which may be of any size.
    pub fn beyond(&self, most: usize) -> bool {
        self.waiting > most
            && self.waiting - self.segments.iter().map(Vec::len).max().unwrap_or(0).min(self.waiting) > most
    }

    /// Bytes that were ever taken by the socket.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Append by writing into a buffer.
    pub fn gather<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let full = self.segments.back().map_or(true, |last| last.len() >= GATHERED);
        if full || !self.open {
            self.segments.push_back(std::mem::take(&mut self.spare));
            self.open = true;
        }
        let last = self.segments.len() - 1;
        let buffer = &mut self.segments[last];
        let before = buffer.len();
        let result = write(buffer);
        self.waiting += buffer.len() - before;
        result
    }

    /// Append bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.gather(|buffer| buffer.extend_from_slice(bytes));
    }

    /// Append a body; a large one is not copied.
    pub fn body(&mut self, body: Vec<u8>) {
        if body.len() <= COPIED {
            return self.put(&body);
        }
        self.waiting += body.len();
        self.segments.push_back(body);
        self.open = false;
    }

    /// Write what the socket takes. True when nothing waits any more.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while let Some(first) = self.segments.front() {
            let rest = &first[self.written..];
            if !rest.is_empty() {
                match socket.write(rest) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        self.written += count;
                        self.waiting -= count;
                        self.total += count as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
            }
            if self.written == first.len() {
                self.pop();
            }
        }
        Ok(true)
    }

    fn pop(&mut self) {
        self.written = 0;
        if let Some(mut done) = self.segments.pop_front() {
            // Kept for the next answer, if it is no large body.
            if done.capacity() <= GATHERED * 2 && done.capacity() > self.spare.capacity() {
                done.clear();
                self.spare = done;
            }
        }
        self.open = self.open && !self.segments.is_empty();
    }

    /// Give memory back: nothing is expected for a while.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            self.spare = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes a call, then would block.
    struct Narrow(Vec<u8>, usize, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.2 == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.2 -= 1;
            let count = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_come_out_in_order_whatever_the_socket_takes() {
        for width in [1, 7, 4096, 1 << 20] {
            let (mut out, mut expected) = (Outgoing::default(), Vec::new());
            let mut socket = Narrow(Vec::new(), width, 0);
            for turn in 0..20usize {
                let body = vec![turn as u8; if turn % 3 == 0 { 40_000 } else { 5 }];
                expected.extend_from_slice(b"head");
                expected.extend_from_slice(&body);
                out.put(b"head");
                out.body(body);
                socket.2 = 3;
                let before = out.waiting();
                let done = out.flush(&mut socket).unwrap();
                assert_eq!(done, out.is_empty());
                assert!(out.waiting() <= before);
            }
            socket.2 = usize::MAX;
            assert!(out.flush(&mut socket).unwrap());
            assert_eq!(socket.0, expected);
            assert_eq!(out.total(), expected.len() as u64);
        }
    }

    #[test]
    fn one_large_answer_may_be_of_any_size() {
        let mut out = Outgoing::default();
        out.put(b"head");
        out.body(vec![0; 1 << 20]);
        assert!(!out.beyond(4) && out.beyond(3));
        out.body(vec![0; 1 << 20]);
        assert!(!out.beyond((1 << 20) + 4) && out.beyond(1 << 20));
    }
}
