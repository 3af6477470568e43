//! One batch: the inputs of all its rows in one piece each, and the outputs cut back into its requests.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::fault::{Fault, Kind};
use crate::lane_job::{element_offsets, rows_of, Job, Piece};
use crate::lane_spec::Port;
use crate::rows::{Lend, View};
use crate::tensor::{Datatype, Tensor};

/// What the first byte of every buffer that is filled here is aligned to.
pub const ALIGNMENT: usize = 64;
/// What a request's own buffer must be aligned to, so that it may be used as it is: the largest element.
const ELEMENT: usize = 8;

enum Store {
    /// Filled row by row; the bytes begin at the offset.
    Own(Vec<u8>, usize),
    /// The input of the only request.
    Of(Arc<Job>, usize),
}

/// One input of a batch.
pub struct Array {
    pub index: usize,
    pub datatype: Datatype,
    pub shape: Vec<u64>,
    /// For BYTES: where each element begins, with its length, and the end.
    pub offsets: Vec<usize>,
    store: Store,
}

impl Array {
    /// The elements of all rows.
    pub fn bytes(&self) -> &[u8] {
        match &self.store {
            Store::Own(bytes, from) => &bytes[*from..],
            Store::Of(job, place) => &job.inputs[*place].data,
        }
    }
}

/// A batch that is being run.
pub struct Batch {
    /// By which the lane knows it.
    pub number: u64,
    pub rows: usize,
    pub arrays: Vec<Array>,
    /// The requests in it: id, client, rows, seconds in the queue.
    pub parts: Vec<(Arc<Job>, usize, Duration)>,
}

/// Put pieces together. All are of one group.
pub fn assemble(number: u64, pieces: &[Piece], waited: &[Duration]) -> Batch {
    let rows = pieces.iter().map(|piece| piece.rows).sum();
    let first = &pieces[0].job;
    let arrays = (0..first.inputs.len()).map(|place| array(place, pieces, rows)).collect();
    let parts = pieces.iter().zip(waited).map(|(piece, waited)| (piece.job.clone(), piece.rows, *waited)).collect();
    Batch { number, rows, arrays, parts }
}

fn array(place: usize, pieces: &[Piece], rows: usize) -> Array {
    let first = &pieces[0].job.inputs[place];
    let mut shape = first.shape.clone();
    let aligned = first.data.is_empty() || first.data.as_ptr() as usize % ELEMENT == 0;
    if pieces.len() == 1 && pieces[0].whole() && aligned {
        let (offsets, store) = (first.offsets.clone(), Store::Of(pieces[0].job.clone(), place));
        return Array { index: first.index, datatype: first.datatype, shape, offsets, store };
    }
    if let Some(size) = shape.first_mut() {
        *size = rows as u64;
    }
    let shares: Vec<&[u8]> = pieces.iter().map(|piece| piece.job.inputs[place].rows(piece.from, piece.rows)).collect();
    let total: usize = shares.iter().map(|share| share.len()).sum();
    let mut bytes: Vec<u8> = Vec::with_capacity(total + ALIGNMENT);
    let from = (ALIGNMENT - bytes.as_ptr() as usize % ALIGNMENT) % ALIGNMENT;
    bytes.resize(from, 0);
    for share in shares {
        bytes.extend_from_slice(share);
    }
    let mut offsets = Vec::new();
    if first.datatype == Datatype::Bytes {
        let count = Tensor::elements(&shape).unwrap_or(0);
        offsets = element_offsets(&bytes[from..], count).unwrap_or_default();
    }
    Array { index: first.index, datatype: first.datatype, shape, offsets, store: Store::Own(bytes, from) }
}

/// One output of a batch, as the model gave it: in the order of the model's outputs.
pub struct Output<'a> {
    pub datatype: Datatype,
    pub shape: Vec<u64>,
    pub data: &'a [u8],
    offsets: Vec<usize>,
}

impl<'a> Output<'a> {
    /// Check that the bytes are what datatype and shape say.
    pub fn new(datatype: Datatype, shape: Vec<u64>, data: &'a [u8]) -> Option<Output<'a>> {
        let count = Tensor::elements(&shape)?;
        let offsets = if datatype == Datatype::Bytes { element_offsets(data, count)? } else { Vec::new() };
        if datatype != Datatype::Bytes && count.checked_mul(datatype.size())? != data.len() {
            return None;
        }
        Some(Output { datatype, shape, data, offsets })
    }

    fn slice<'b>(&'b self, port: &'b Port, from: usize, rows: usize) -> Slice<'b> {
        let all = self.shape[0] as usize;
        let mut shape = self.shape.clone();
        shape[0] = rows as u64;
        let data = Cow::Borrowed(rows_of(self.data, &self.offsets, all, from, rows));
        Slice { name: Cow::Borrowed(&port.name), datatype: self.datatype, shape, data }
    }
}

/// The rows of one output that one request gets: still the model's memory, or put together from pieces.
pub struct Slice<'a> {
    name: Cow<'a, str>,
    datatype: Datatype,
    shape: Vec<u64>,
    data: Cow<'a, [u8]>,
}

impl Lend for Slice<'_> {
    fn lend(&self) -> View<'_> {
        View { name: &self.name, datatype: self.datatype, shape: &self.shape, data: &self.data }
    }
}

impl Slice<'_> {
    /// As a tensor of its own.
    pub fn keep(self) -> Tensor {
        let (name, data) = (self.name.into_owned(), self.data.into_owned());
        Tensor { name, datatype: self.datatype, shape: self.shape, data }
    }
}

impl From<Tensor> for Slice<'_> {
    fn from(tensor: Tensor) -> Self {
        let (name, data) = (Cow::Owned(tensor.name), Cow::Owned(tensor.data));
        Slice { name, datatype: tensor.datatype, shape: tensor.shape, data }
    }
}

/// Whether the outputs are as many as the model has, and each has the batch's rows.
pub fn check(ports: &[Port], outputs: &[Output], rows: usize) -> Result<(), Fault> {
    if ports.len() != outputs.len() {
        let message = format!("the model gave {} outputs; it has {}", outputs.len(), ports.len());
        return Err(Fault::new(Kind::Model, message));
    }
    for (port, output) in ports.iter().zip(outputs) {
        if output.shape.first().copied() != Some(rows as u64) {
            let message = format!("output {:?} has the shape {:?}; expected {rows} rows", port.name, output.shape);
            return Err(Fault::new(Kind::Model, message));
        }
    }
    Ok(())
}

/// The outputs that one piece of a batch gets; it begins at a row of the batch.
pub fn share<'a>(ports: &'a [Port], outputs: &'a [Output], piece: &Piece, from: usize) -> Vec<Slice<'a>> {
    let one = |index: usize| outputs[index].slice(&ports[index], from, piece.rows);
    if piece.job.outputs.is_empty() {
        (0..outputs.len()).map(one).collect()
    } else {
        piece.job.outputs.iter().map(|index| one(*index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_job::pieces;
    use crate::lane_job::tests::caller;

    const FAR: Duration = Duration::from_secs(9);

    #[test]
    fn a_single_whole_request_is_not_copied() {
        let one = caller(0, 3, 0, 2, FAR);
        let batch = assemble(1, &pieces(&one.job, 8), &[FAR]);
        assert_eq!(batch.arrays[0].bytes().as_ptr(), one.job.inputs[0].data.as_ptr());
        assert_eq!(batch.arrays[0].shape, [3, 2]);
    }

    #[test]
    fn rows_lie_one_after_the_other_and_aligned() {
        let (one, two) = (caller(0, 3, 0, 2, FAR), caller(3, 2, 0, 2, FAR));
        let cut: Vec<Piece> = [&one, &two].iter().flat_map(|caller| pieces(&caller.job, 8)).collect();
        let batch = assemble(1, &cut, &[FAR, FAR]);
        let bytes = batch.arrays[0].bytes();
        assert_eq!(bytes.as_ptr() as usize % ALIGNMENT, 0);
        assert_eq!(bytes, [&one.job.inputs[0].data[..], &two.job.inputs[0].data].concat());
        assert_eq!(batch.arrays[0].shape, [5, 2]);
    }

    #[test]
    fn an_output_is_what_its_shape_says_and_cut_by_rows() {
        assert!(Output::new(Datatype::Fp32, vec![2], &[0; 7]).is_none());
        assert!(Output::new(Datatype::Fp32, vec![u64::MAX, 2], &[0; 8]).is_none());
        assert!(Output::new(Datatype::Bytes, vec![1], &[2, 0, 0, 0, 1]).is_none());
        let data = [1, 0, 0, 0, b'a', 0, 0, 0, 0, 1, 0, 0, 0, b'c'];
        let output = Output::new(Datatype::Bytes, vec![3], &data).unwrap();
        let port = Port { name: "y".into(), datatype: Datatype::Bytes, shape: vec![-1], text: false };
        let tensor = output.slice(&port, 1, 2).keep();
        assert_eq!((tensor.shape, &tensor.data[..]), (vec![2], &data[5..]));
        assert!(check(&[port], &[output], 2).unwrap_err().message.contains("expected 2 rows"));
    }
}
