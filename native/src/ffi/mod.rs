//! The C interface, for `vitrify.serve.planes._library`. A panic never leaves it.
//!
//! Handles are boxes that the caller frees once. Texts and bytes that are given are borrowed for the call; those that
//! are returned live as long as their handle, or, for errors, until the thread's next call. Memory of a batch's inputs
//! may be written by the model: nothing here reads it again.
#![allow(unsafe_code)]
// Every function takes pointers from Python; what each must be is said above.
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref)]

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::batch::Batch;
use crate::fault::{Fault, Kind};
use crate::tensor::{Datatype, Tensor};

mod calls;
mod house;
mod lanes;

/// Changes whenever anything here does.
const ABI: u32 = 3;
/// The most dimensions of an array.
const RANK: usize = 8;
const OK: i32 = 0;
const FAILED: i32 = -1;

const KINDS: [Kind; 11] = [
    Kind::Busy,
    Kind::Expired,
    Kind::Unavailable,
    Kind::LimitExceeded,
    Kind::Signature,
    Kind::Malformed,
    Kind::NotFound,
    Kind::Authentication,
    Kind::Denied,
    Kind::Model,
    Kind::Internal,
];

/// Bytes that are borrowed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

impl Bytes {
    fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), size: bytes.len() }
    }

    fn get<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // The caller lends as many bytes as it says.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }

    fn text<'a>(self) -> &'a str {
        std::str::from_utf8(self.get()).unwrap_or("")
    }
}

/// One array: an input by its place in the model, or an output.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Array {
    index: u32,
    datatype: u32,
    rank: u32,
    unused: u32,
    shape: [u64; RANK],
    data: Bytes,
    /// For BYTES of a batch: where each element begins, with its length, and the end.
    offsets: *const usize,
    count: usize,
}

impl Array {
    fn shape(&self) -> Option<Vec<u64>> {
        self.shape.get(..self.rank as usize).map(<[u64]>::to_vec)
    }

    fn set(&mut self, index: usize, datatype: Datatype, shape: &[u64], data: &[u8], offsets: &[usize]) {
        self.index = index as u32;
        self.datatype = datatype as u32;
        self.rank = shape.len().min(RANK) as u32;
        for (place, size) in self.shape.iter_mut().zip(shape) {
            *place = *size;
        }
        self.data = Bytes::of(data);
        self.offsets = offsets.as_ptr();
        self.count = offsets.len();
    }
}

/// A fault.
#[repr(C)]
pub struct Told {
    kind: u32,
    retry_after: u32,
    message: Bytes,
}

/// A batch that is to be run. `arrays` is the caller's, with room for all inputs of the model.
#[repr(C)]
pub struct Due {
    handle: *mut Batch,
    number: u64,
    rows: u64,
    count: u64,
    arrays: *mut Array,
    room: u64,
}

/// What happened. `arrays` is the caller's.
#[repr(C)]
pub struct Happened {
    handle: *mut Kept,
    /// 0 nothing, 1 call, 2 message, 3 end, 4 gone, 5 answer, 6 fault.
    what: u32,
    streaming: u32,
    number: u64,
    /// Of a call: its head, as JSON.
    head: Bytes,
    body: Bytes,
    fault: Told,
    count: u64,
    arrays: *mut Array,
    room: u64,
}

/// What Python asks beside the arrays.
#[repr(C)]
pub struct Asked {
    id: Bytes,
    client: Bytes,
    /// Places of outputs; none for all.
    outputs: *const u32,
    outputs_count: usize,
    priority: u32,
    unused: u32,
    /// Seconds from now; infinite for the lane's own.
    patience: f64,
    /// By which the answer is known.
    ticket: u64,
}

/// What an event's pointers point into.
pub enum Kept {
    Call(String, Vec<u8>),
    Message(Vec<u8>),
    Answer(Vec<Tensor>),
    Fault(String),
}

thread_local! {
    static ERROR: RefCell<Fault> = RefCell::new(Fault::new(Kind::Internal, ""));
}

fn fail(fault: Fault) -> i32 {
    ERROR.with(|error| *error.borrow_mut() = fault);
    FAILED
}

fn guard<T>(otherwise: T, work: impl FnOnce() -> Result<T, Fault>) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => value,
        Ok(Err(fault)) => {
            fail(fault);
            otherwise
        }
        Err(_) => {
            fail(Fault::new(Kind::Internal, "the native plane has a fault"));
            otherwise
        }
    }
}

fn wrong(message: impl Into<String>) -> Fault {
    Fault::new(Kind::Malformed, message)
}

fn boxed(text: String) -> *mut String {
    Box::into_raw(Box::new(text))
}

/// The version of this interface.
#[no_mangle]
pub extern "C" fn vp_abi() -> u32 {
    ABI
}

/// The last error of this thread.
#[no_mangle]
pub extern "C" fn vp_error(told: &mut Told) {
    ERROR.with(|error| {
        let error = error.borrow();
        tell(told, &error);
    });
}

fn tell(told: &mut Told, fault: &Fault) {
    told.kind = KINDS.iter().position(|kind| *kind == fault.kind).unwrap_or(KINDS.len() - 1) as u32;
    told.retry_after = fault.retry_after;
    told.message = Bytes::of(fault.message.as_bytes());
}

/// The bytes of a text.
#[no_mangle]
pub extern "C" fn vp_text(text: &String, bytes: &mut Bytes) {
    *bytes = Bytes::of(text.as_bytes());
}

/// Let go of a text.
#[no_mangle]
pub unsafe extern "C" fn vp_text_free(text: *mut String) {
    drop(Box::from_raw(text));
}
