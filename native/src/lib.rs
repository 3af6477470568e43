//! The native data plane of `vitrify serve`. No dependencies; `unsafe` is in `sys`, `ffi` and `tls/openssl` only.
#![deny(unsafe_code)]

pub mod access;
pub mod alarm;
pub mod batch;
pub mod client;
pub mod fault;
pub mod ffi;
pub mod figures;
pub mod flaw;
pub mod front;
pub mod general;
mod grpc;
pub mod hot;
pub mod house;
pub mod http1;
pub mod http2;
pub mod infer;
pub mod json;
mod json_values;
pub mod lane;
pub mod lane_job;
pub mod lane_pace;
pub mod lane_queue;
pub mod lane_spec;
pub mod local;
pub mod number;
pub mod oip_grpc;
mod oip_grpc_contents;
pub mod oip_rest;
pub mod oip_rest_answer;
mod oip_rest_data;
mod oip_rest_input;
pub mod protobuf;
pub mod route;
pub mod rows;
pub mod service;
mod shortest;
pub mod sha256;
pub mod sys;
pub mod tables;
pub mod tally;
pub mod tensor;
pub mod timeout;
pub mod tls;
pub mod traces;

#[cfg(test)]
mod codec_tests;
#[cfg(test)]
mod lane_tests;
