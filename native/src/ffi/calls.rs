//! What happened, and the answers to calls.
#![allow(unsafe_code)]
// Every function takes pointers from Python; what each must be is said in `super`.
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref)]

use std::sync::Arc;
use std::time::Duration;

use super::{boxed, guard, tell, Bytes, Happened, Kept, FAILED};
use crate::general::Event;
use crate::house::House;
use crate::local::{collected, Completed};
use crate::service::{Head, Response, Wire};
use crate::tables::{quote, Table};

/// Wait for something to happen: 1, or 0 when all is over.
#[no_mangle]
pub unsafe extern "C" fn vp_next(house: &Arc<House>, happened: &mut Happened) -> i32 {
    guard(FAILED, || loop {
        if let Some(event) = house.events.next(Duration::from_secs(3600)) {
            happen(event, happened);
            return Ok(1);
        }
        if house.events.over() {
            return Ok(0);
        }
    })
}

/// Wait for requests that are traced and have ended: a text to be freed, or null when all is over.
#[no_mangle]
pub extern "C" fn vp_records(house: &Arc<House>) -> *mut String {
    guard(std::ptr::null_mut(), || {
        Ok(house.records.take(Duration::from_secs(3600)).map_or(std::ptr::null_mut(), boxed))
    })
}

/// The next answer that this thread made: 1, or 0.
#[no_mangle]
pub unsafe extern "C" fn vp_answered(happened: &mut Happened) -> i32 {
    guard(FAILED, || match collected() {
        Some(completed) => {
            happen(Event::Local(completed), happened);
            Ok(1)
        }
        None => Ok(0),
    })
}

/// Let go of what happened.
#[no_mangle]
pub unsafe extern "C" fn vp_happened_free(kept: *mut Kept) {
    if !kept.is_null() {
        drop(Box::from_raw(kept));
    }
}

unsafe fn happen(event: Event, happened: &mut Happened) {
    (happened.handle, happened.count) = (std::ptr::null_mut(), 0);
    let (what, number, kept) = match event {
        Event::Call { number, streaming, head, client, request, body } => {
            happened.streaming = u32::from(streaming);
            (1, number, Some(Kept::Call(described(&head, &client, &request), body)))
        }
        Event::Message { number, body } => (2, number, Some(Kept::Message(body))),
        Event::End { number } => (3, number, None),
        Event::Gone { number } => (4, number, None),
        Event::Local(Completed { ticket, result: Ok(tensors) }) => (5, ticket, Some(Kept::Answer(tensors))),
        Event::Local(Completed { ticket, result: Err(fault) }) => {
            tell(&mut happened.fault, &fault);
            (6, ticket, Some(Kept::Fault(fault.message)))
        }
    };
    (happened.what, happened.number) = (what, number);
    if let Some(kept) = kept {
        let kept = Box::new(kept);
        match &*kept {
            Kept::Call(head, body) => {
                happened.head = Bytes::of(head.as_bytes());
                happened.body = Bytes::of(body);
            }
            Kept::Message(body) => happened.body = Bytes::of(body),
            Kept::Fault(message) => happened.fault.message = Bytes::of(message.as_bytes()),
            Kept::Answer(tensors) => {
                let room = std::slice::from_raw_parts_mut(happened.arrays, happened.room as usize);
                happened.count = tensors.len() as u64;
                for (index, (place, tensor)) in room.iter_mut().zip(tensors).enumerate() {
                    place.set(index, tensor.datatype, &tensor.shape, &tensor.data, &[]);
                }
            }
        }
        happened.handle = Box::into_raw(kept);
    }
}

fn described(head: &Head, client: &str, request: &str) -> String {
    let mut out = String::with_capacity(512);
    out.push_str(if head.wire == Wire::Grpc { "{\"grpc\":true" } else { "{\"grpc\":false" });
    for (key, value) in [
        ("method", head.method.as_str()),
        ("path", &head.path),
        ("query", &head.query),
        ("client", client),
        ("id", request),
    ] {
        out.push_str(&format!(",\"{key}\":"));
        quote(value, &mut out);
    }
    out.push_str(&format!(
        ",\"peer\":\"{}\",\"age\":{:?},\"headers\":[",
        head.peer.address,
        head.arrived.elapsed().as_secs_f64()
    ));
    for (number, (name, value)) in head.headers.iter().enumerate() {
        out.push_str(if number > 0 { ",[" } else { "[" });
        quote(name, &mut out);
        out.push(',');
        quote(value, &mut out);
        out.push(']');
    }
    out.push_str("]}");
    out
}

fn headers(text: &str) -> Vec<(String, String)> {
    let table = Table::read(text).unwrap_or(Table::Null);
    table.map().iter().map(|(name, value)| (name.clone(), value.text().to_owned())).collect()
}

/// Answer a call over HTTP, whole; 0 where the client has left. Headers are a JSON object.
#[no_mangle]
pub extern "C" fn vp_answer(house: &Arc<House>, call: u64, status: u32, fields: Bytes, body: Bytes) -> i32 {
    let response =
        || Response::Http { status: status as u16, headers: headers(fields.text()), body: body.get().to_vec() };
    guard(FAILED, || Ok(i32::from(house.calls.send(call, response(), 0))))
}

/// Begin a streamed answer over HTTP.
#[no_mangle]
pub extern "C" fn vp_begin(house: &Arc<House>, call: u64, status: u32, fields: Bytes) -> i32 {
    let response = || Response::Begin { status: status as u16, headers: headers(fields.text()) };
    guard(FAILED, || Ok(i32::from(house.calls.send(call, response(), 0))))
}

/// Send a piece of a streamed answer: bytes over HTTP, a message over gRPC.
#[no_mangle]
pub extern "C" fn vp_piece(house: &Arc<House>, call: u64, body: Bytes) -> i32 {
    guard(FAILED, || Ok(i32::from(house.calls.send(call, Response::Piece(body.get().to_vec()), 0))))
}

/// End a streamed answer; the rest is gRPC's: a code, a text, and after how many seconds to come again (0 for none).
#[no_mangle]
pub extern "C" fn vp_end(house: &Arc<House>, call: u64, code: u32, message: Bytes, retry_after: u32) -> i32 {
    let response = || Response::End { code: code as u8, message: message.text().to_owned() };
    guard(FAILED, || Ok(i32::from(house.calls.send(call, response(), retry_after))))
}

/// Answer a unary call over gRPC with its message.
#[no_mangle]
pub extern "C" fn vp_reply(house: &Arc<House>, call: u64, body: Bytes) -> i32 {
    let response = || Response::Grpc { code: 0, message: String::new(), body: Some(body.get().to_vec()) };
    guard(FAILED, || Ok(i32::from(house.calls.send(call, response(), 0))))
}

/// Forget a call whose client has left.
#[no_mangle]
pub extern "C" fn vp_forget(house: &Arc<House>, call: u64) {
    guard((), || {
        house.calls.forget(call);
        Ok(())
    });
}
