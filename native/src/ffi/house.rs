//! The house: what it is told, and its front.
#![allow(unsafe_code)]
// Every function takes pointers from Python; what each must be is said in `super`.
#![allow(clippy::missing_safety_doc, clippy::not_unsafe_ptr_arg_deref)]

use std::fs::File;
use std::os::unix::io::FromRawFd;
use std::sync::Arc;

use super::{boxed, guard, wrong, Bytes, FAILED, OK};
use crate::fault::{Fault, Kind};
use crate::house::House;
use crate::service::Limits;
use crate::tables::Table;
use crate::tls::{self, Papers, Tls};

/// Build a house.
#[no_mangle]
pub extern "C" fn vp_house_new() -> *mut Arc<House> {
    guard(std::ptr::null_mut(), || Ok(Box::into_raw(Box::new(House::new()))))
}

/// Keep an access log in a file descriptor, which is closed in the end.
#[no_mangle]
pub unsafe extern "C" fn vp_house_log(house: &Arc<House>, descriptor: i32) {
    guard((), || {
        house.set_log(Box::new(File::from_raw_fd(descriptor)));
        Ok(())
    });
}

/// Let go of a house that was stopped.
#[no_mangle]
pub unsafe extern "C" fn vp_house_free(house: *mut Arc<House>) {
    guard((), || {
        drop(Box::from_raw(house));
        Ok(())
    });
}

/// Set a table.
#[no_mangle]
pub extern "C" fn vp_house_set(house: &Arc<House>, what: Bytes, table: Bytes) -> i32 {
    guard(FAILED, || house.set(what.text(), table.text()).map(|()| OK).map_err(wrong))
}

/// Listen on the ports; negative is none. They become the ports that were found. Where the limits have `certificate`, it is
/// TLS: with `key` and, for clients that need certificates, `authority`. A file that cannot be used is malformed.
#[no_mangle]
pub extern "C" fn vp_house_start(house: &Arc<House>, host: Bytes, ports: &mut [i32; 2], limits: Bytes) -> i32 {
    guard(FAILED, || {
        let table = Table::read(limits.text()).map_err(wrong)?;
        let limits = Limits {
            connections: table.get("connections").count(),
            head_bytes: table.get("head_bytes").count(),
            headers: table.get("headers").count(),
            head_seconds: table.get("head_seconds").number(),
            body_seconds: table.get("body_seconds").number(),
            idle_seconds: table.get("idle_seconds").number(),
            send_seconds: table.get("send_seconds").number(),
            send_bytes: table.get("send_bytes").count(),
            streams: table.get("streams").count() as u32,
        };
        let [http, grpc] = ports.map(|port| if port < 0 { None } else { Some(port as u16) });
        let [certificate, key, authority] = ["certificate", "key", "authority"].map(|name| table.get(name).text());
        let papers = Papers { certificate, key, authority };
        let tls = if certificate.is_empty() { None } else { Some(Tls::open(&papers).map_err(wrong)?) };
        let found = house.start(crate::front::start, host.text(), (http, grpc), limits, tls);
        let (first, second) = found.map_err(|error| Fault::new(Kind::Unavailable, error.to_string()))?;
        *ports = [http.map_or(-1, |_| i32::from(first)), grpc.map_or(-1, |_| i32::from(second))];
        Ok(OK)
    })
}

/// Accept nothing more; 1 when everything was answered within so long.
#[no_mangle]
pub extern "C" fn vp_house_drain(house: &Arc<House>, seconds: f64) -> i32 {
    guard(FAILED, || Ok(i32::from(house.drain(seconds))))
}

/// Listen no more, and close every connection.
#[no_mangle]
pub extern "C" fn vp_house_close(house: &Arc<House>) {
    guard((), || {
        house.close();
        Ok(())
    });
}

/// End everything.
#[no_mangle]
pub extern "C" fn vp_house_stop(house: &Arc<House>) {
    guard((), || {
        house.stop();
        Ok(())
    });
}

/// What the house has to tell: a text to be freed.
#[no_mangle]
pub extern "C" fn vp_house_figures(house: &Arc<House>) -> *mut String {
    guard(std::ptr::null_mut(), || Ok(boxed(house.figures())))
}

/// Why there is no TLS: a text to be freed, empty where there is.
#[no_mangle]
pub extern "C" fn vp_tls_missing() -> *mut String {
    guard(std::ptr::null_mut(), || Ok(boxed(tls::missing().unwrap_or_default())))
}
