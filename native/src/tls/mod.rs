//! TLS for the front: by the OpenSSL that Python's `ssl` has loaded, on sockets that do not block.

mod openssl;
pub(crate) mod sealed;

pub use openssl::{missing, Papers};
use openssl::{Context, Spoken};

/// Who offers no protocol, or none of ours, is answered over HTTP/1.1.
static WEB: Spoken = Spoken { name: b"http/1.1", only: false };
/// HTTP/2 is nothing that another protocol could be mistaken for: who offers others only is refused.
static RPC: Spoken = Spoken { name: b"h2", only: true };

/// A server's side of TLS, one context a port.
pub struct Tls {
    pub(crate) web: Context,
    pub(crate) rpc: Context,
}

impl Tls {
    /// Read the files. They are read once: new ones are taken by the next start.
    ///
    /// # Errors
    /// There is no OpenSSL 3, or a file cannot be used; which and why.
    pub fn open(papers: &Papers<'_>) -> Result<Tls, String> {
        Ok(Tls { web: Context::new(papers, &WEB)?, rpc: Context::new(papers, &RPC)? })
    }
}
