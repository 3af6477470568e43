//! Lanes: batches to run, and requests of Python's own.
#![allow(unsafe_code)]
// Every function takes pointers from Python; what each must be is said in `super`.
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{boxed, guard, wrong, Array, Asked, Bytes, Due, Told, FAILED, KINDS, OK, RANK};
use crate::batch::{Batch, Output};
use crate::fault::{Fault, Kind};
use crate::front::Cork;
use crate::house::House;
use crate::lane::Lane;
use crate::lane_job::{element_offsets, Input, Job, Terms};
use crate::lane_spec::LaneSpec;
use crate::local::collect;
use crate::tables::quote;
use crate::tensor::{Datatype, Tensor};

/// Open a lane.
#[no_mangle]
pub extern "C" fn vp_lane_open(house: &Arc<House>, spec: Bytes) -> *mut Arc<Lane> {
    guard(std::ptr::null_mut(), || {
        let spec = LaneSpec::read(spec.text()).map_err(wrong)?;
        if spec.inputs.iter().chain(&spec.outputs).any(|port| port.shape.len() > RANK) {
            return Err(wrong(format!("an array has more than {RANK} dimensions")));
        }
        Ok(Box::into_raw(Box::new(house.open_lane(spec))))
    })
}

/// Close a lane; 1 when everything in it was answered within so long. `vp_answered` has what this made.
#[no_mangle]
pub extern "C" fn vp_lane_close(house: &Arc<House>, lane: &Arc<Lane>, seconds: f64) -> i32 {
    let patience = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
    guard(FAILED, || Ok(i32::from(collect(|| house.close_lane(lane, patience)).0)))
}

/// Let go of a lane that was closed and that no thread takes from.
#[no_mangle]
pub unsafe extern "C" fn vp_lane_free(lane: *mut Arc<Lane>) {
    guard((), || {
        drop(Box::from_raw(lane));
        Ok(())
    });
}

/// What a lane has done: a text to be freed.
#[no_mangle]
pub extern "C" fn vp_lane_figures(lane: &Arc<Lane>) -> *mut String {
    guard(std::ptr::null_mut(), || Ok(boxed(lane.figures())))
}

/// Wait for a batch: 1, or 0 when the lane is closed and empty.
#[no_mangle]
pub unsafe extern "C" fn vp_lane_take(lane: &Arc<Lane>, due: &mut Due) -> i32 {
    guard(FAILED, || {
        let batch = match lane.take() {
            Some(batch) => Box::new(batch),
            None => return Ok(0),
        };
        let room = std::slice::from_raw_parts_mut(due.arrays, due.room as usize);
        if batch.arrays.len() > room.len() {
            lane.fail(batch.number, &Fault::new(Kind::Internal, "a batch has more inputs than its model"));
            return Err(wrong("too little room for a batch"));
        }
        for (place, array) in room.iter_mut().zip(&batch.arrays) {
            place.set(array.index, array.datatype, &array.shape, array.bytes(), &array.offsets);
        }
        (due.number, due.rows, due.count) = (batch.number, batch.rows as u64, batch.arrays.len() as u64);
        due.handle = Box::into_raw(batch);
        Ok(1)
    })
}

/// Who is in a batch, as JSON: a text to be freed.
#[no_mangle]
pub extern "C" fn vp_batch_parts(batch: &Batch) -> *mut String {
    guard(std::ptr::null_mut(), || {
        let mut out = String::from("[");
        for (number, (job, rows, waited)) in batch.parts.iter().enumerate() {
            out.push_str(if number > 0 { ",[" } else { "[" });
            quote(&job.id, &mut out);
            out.push(',');
            quote(&job.client, &mut out);
            out.push_str(&format!(",{rows},{:?}]", waited.as_secs_f64()));
        }
        out.push(']');
        Ok(boxed(out))
    })
}

/// Let go of a batch and of the memory of its inputs.
#[no_mangle]
pub unsafe extern "C" fn vp_batch_free(batch: *mut Batch) {
    guard((), || {
        drop(Box::from_raw(batch));
        Ok(())
    });
}

/// Answer a batch with all outputs of the model, in its order. How many answers of Python's own requests that made,
/// for `vp_answered`; negative where the outputs do not fit (`made` has the number then).
#[no_mangle]
pub unsafe extern "C" fn vp_lane_answer(
    lane: &Arc<Lane>,
    number: u64,
    arrays: *const Array,
    count: usize,
    made: &mut u64,
) -> i32 {
    guard(FAILED, || {
        let arrays = if count == 0 { &[] } else { std::slice::from_raw_parts(arrays, count) };
        let outputs: Option<Vec<Output>> = arrays.iter().map(output).collect();
        let answer = || match outputs {
            Some(outputs) => lane.answer(number, &outputs),
            None => {
                let fault = Fault::new(Kind::Internal, "an output is not what its shape says");
                lane.fail(number, &fault);
                Err(fault)
            }
        };
        let _cork = Cork::new();
        let (result, answers) = collect(answer);
        *made = answers as u64;
        result.map(|()| OK)
    })
}

fn output(array: &Array) -> Option<Output<'_>> {
    Output::new(*Datatype::ALL.get(array.datatype as usize)?, array.shape()?, array.data.get())
}

/// Fail a batch; `made` as above.
#[no_mangle]
pub extern "C" fn vp_lane_fail(lane: &Arc<Lane>, number: u64, told: &Told, made: &mut u64) {
    guard((), || {
        let kind = *KINDS.get(told.kind as usize).unwrap_or(&Kind::Internal);
        let mut fault = Fault::new(kind, told.message.text());
        fault.retry_after = told.retry_after.max(1);
        let _cork = Cork::new();
        *made = collect(|| lane.fail(number, &fault)).1 as u64;
        Ok(())
    });
}

/// Submit a request of Python's.
#[no_mangle]
pub unsafe extern "C" fn vp_submit(
    house: &Arc<House>,
    lane: &Arc<Lane>,
    arrays: *const Array,
    count: usize,
    asked: &Asked,
) -> i32 {
    guard(FAILED, || {
        let arrays = if count == 0 { &[] } else { std::slice::from_raw_parts(arrays, count) };
        let inputs = arrays.iter().map(|array| input(lane, array)).collect::<Result<Vec<Input>, Fault>>()?;
        let places =
            if asked.outputs_count == 0 { &[] } else { std::slice::from_raw_parts(asked.outputs, asked.outputs_count) };
        let outputs: Vec<usize> = places.iter().map(|place| *place as usize).collect();
        if outputs.iter().any(|place| *place >= lane.spec.outputs.len()) {
            return Err(Fault::new(Kind::Internal, "an output is asked for that there is none of"));
        }
        let admitted = Instant::now();
        let patience =
            if asked.patience < 3e9 { Duration::from_secs_f64(asked.patience.max(0.0)) } else { lane.spec.seconds };
        let (id, client) = (asked.id.text().to_owned(), asked.client.text().to_owned());
        let terms = Terms { id, client, outputs, priority: asked.priority, admitted, deadline: admitted + patience };
        let answer = house.tickets.issue(asked.ticket, &house.events);
        lane.submit(&Arc::new(Job::new(inputs, terms, answer))).map(|()| OK).map_err(|refused| refused.fault)
    })
}

fn input(lane: &Lane, array: &Array) -> Result<Input, Fault> {
    let index = array.index as usize;
    let flaw = || Fault::new(Kind::Internal, format!("input {index} is not what its shape says"));
    let datatype = *Datatype::ALL.get(array.datatype as usize).ok_or_else(flaw)?;
    let shape = array.shape().ok_or_else(flaw)?;
    let count = Tensor::elements(&shape).ok_or_else(flaw)?;
    let data = array.data.get().to_vec();
    let offsets =
        if datatype == Datatype::Bytes { element_offsets(&data, count).ok_or_else(flaw)? } else { Vec::new() };
    let right = datatype == Datatype::Bytes || count.checked_mul(datatype.size()) == Some(data.len());
    if !right || shape.is_empty() || index >= lane.spec.inputs.len() {
        return Err(flaw());
    }
    Ok(Input { index, datatype, shape, data, offsets })
}

/// Nobody waits for a request of Python's any more; 1 where it had no answer. `vp_answered` has what this made.
#[no_mangle]
pub extern "C" fn vp_cancel(house: &Arc<House>, lane: &Arc<Lane>, ticket: u64) -> i32 {
    guard(FAILED, || {
        let waited = house.tickets.cancel(ticket);
        if waited {
            collect(|| lane.sweep(Instant::now()));
        }
        Ok(i32::from(waited))
    })
}
