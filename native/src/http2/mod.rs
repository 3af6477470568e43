//! HTTP/2 with prior knowledge (RFC 9113) and its header compression (RFC 7541).
//!
//! Frames and header blocks are public for the load generator among the examples, which is a client.

mod bounds;
pub(crate) mod connection;
pub mod frame;
pub mod hpack;
mod huffman;
mod inbound;
mod outbound;
mod request;
mod stream;
mod write;
