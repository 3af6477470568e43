//! HTTP/1.1 (RFC 9110, RFC 9112), strict where leniency would let a request hide in another.
//!
//! Bodies are public for the load generator among the examples, which is a client.

pub(crate) mod answer;
pub mod body;
pub(crate) mod connection;
pub mod head;
