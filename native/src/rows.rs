//! Tensors that are lent, and where their rows and elements lie.

use crate::fault::{Fault, Kind};
use crate::tensor::{Datatype, Tensor};

/// A tensor that belongs to somebody else: rows of a batch, for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    pub name: &'a str,
    pub datatype: Datatype,
    pub shape: &'a [u64],
    /// Exactly the elements that `shape` says.
    pub data: &'a [u8],
}

/// What can be encoded.
pub trait Lend {
    /// Lend it.
    fn lend(&self) -> View<'_>;
}

impl Lend for Tensor {
    fn lend(&self) -> View<'_> {
        View { name: &self.name, datatype: self.datatype, shape: &self.shape, data: &self.data }
    }
}

impl Lend for View<'_> {
    fn lend(&self) -> View<'_> {
        *self
    }
}

/// The bytes of rows `from` to `to` (exclusive); none where there are fewer rows, or for BYTES, whose rows have no size.
pub fn tensor_rows(tensor: &Tensor, from: usize, to: usize) -> Option<&[u8]> {
    let (rows, size) = (tensor.rows(), tensor.datatype.size());
    if size == 0 || from > to || to > rows {
        return None;
    }
    let row = tensor.data.len() / rows.max(1);
    tensor.data.get(from * row..to * row)
}

/// Where each of `count` BYTES elements begins, its length included, and at last where all end.
///
/// Errors: the lengths and the data do not agree.
pub fn offsets(data: &[u8], count: usize) -> Result<Vec<usize>, Fault> {
    // Each element has a length of four bytes: a count that cannot be true takes no memory.
    let mut found = Vec::with_capacity(count.min(data.len() / 4) + 1);
    found.push(0);
    walk(data, count, |at| found.push(at)).map_err(|message| Fault::new(Kind::Signature, message))?;
    Ok(found)
}

/// Check that data are exactly `count` BYTES elements; says what is wrong otherwise.
pub fn check_bytes(data: &[u8], count: usize) -> Result<(), String> {
    walk(data, count, |_| ())
}

fn walk(data: &[u8], count: usize, mut ended: impl FnMut(usize)) -> Result<(), String> {
    let mut at = 0;
    for index in 0..count {
        let next = element(data, at).map(|(_, next)| next);
        at = next.ok_or_else(|| {
            format!("element {} of {} does not fit the {} bytes: it begins at byte {}", index, count, data.len(), at)
        })?;
        ended(at);
    }
    if at == data.len() {
        Ok(())
    } else {
        Err(format!("has {} bytes after its {} elements", data.len() - at, count))
    }
}

/// The BYTES element at a position, and where the next one begins.
pub fn element(data: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = at.checked_add(4)?;
    let prefix = data.get(at..start)?;
    let length = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
    let end = start.checked_add(length)?;
    Some((data.get(start..end)?, end))
}

/// Check that raw bytes are what the datatype and the shape say; says what is wrong otherwise.
pub fn check_raw(datatype: Datatype, shape: &[u64], data: &[u8]) -> Result<(), String> {
    let count = Tensor::elements(shape).ok_or_else(|| format!("the shape {:?} is beyond all memory", shape))?;
    if datatype == Datatype::Bytes {
        return check_bytes(data, count);
    }
    if count.checked_mul(datatype.size()) != Some(data.len()) {
        let (name, size) = (datatype.name(), datatype.size());
        return Err(format!(
            "has {} bytes, expected {} elements of {} bytes for {} of the shape {:?}",
            data.len(),
            count,
            size,
            name,
            shape
        ));
    }
    if datatype != Datatype::Bool {
        return Ok(());
    }
    match data.iter().position(|byte| *byte > 1) {
        Some(at) => Err(format!("element {} of BOOL is the byte {}, expected 0 or 1", at, data[at])),
        None => Ok(()),
    }
}
