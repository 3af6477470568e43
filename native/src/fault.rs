//! What goes wrong for a client: one value for HTTP and gRPC, as `vitrify.serve.faults` has it.

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The name of the error's class in `vitrify.core.errors`.
    pub kind: Kind,
    /// What was found, what was expected, and which field; nothing of the server's inside.
    pub message: String,
    /// Seconds after which to come again; only for `Busy`.
    pub retry_after: u32,
}

/// The classes of `vitrify.core.errors` that a client can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Busy,
    Expired,
    Unavailable,
    LimitExceeded,
    Signature,
    Malformed,
    NotFound,
    Authentication,
    Denied,
    Model,
    Internal,
}

impl Kind {
    /// HTTP status and gRPC code.
    pub fn codes(self) -> (u16, u8) {
        match self {
            Kind::Busy => (429, 8),
            Kind::Expired => (504, 4),
            Kind::Unavailable => (503, 14),
            Kind::LimitExceeded => (413, 8),
            Kind::Signature | Kind::Malformed => (400, 3),
            Kind::NotFound => (404, 5),
            Kind::Authentication => (401, 16),
            Kind::Denied => (403, 7),
            Kind::Model => (422, 9),
            Kind::Internal => (500, 13),
        }
    }

    /// The class's name, as figures and Python have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Busy => "BusyError",
            Kind::Expired => "ExpiredError",
            Kind::Unavailable => "UnavailableError",
            Kind::LimitExceeded => "LimitExceededError",
            Kind::Signature => "SignatureError",
            Kind::Malformed => "MalformedError",
            Kind::NotFound => "ReferenceNotFoundError",
            Kind::Authentication => "AuthenticationError",
            Kind::Denied => "DeniedError",
            Kind::Model => "ModelError",
            Kind::Internal => "InternalError",
        }
    }
}

impl Fault {
    /// Make one.
    pub fn new(kind: Kind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into(), retry_after: 1 }
    }
}
