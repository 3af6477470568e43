//! One request for one model, decoded from any protocol, and what its answer has to look like.

use crate::tensor::Tensor;

/// In which form the answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// REST; each output by itself says whether it is JSON or binary, this is for those that say nothing.
    Rest { binary: bool },
    /// gRPC: `raw_output_contents`.
    Grpc,
    /// Asked by Python: the tensors themselves.
    Local,
}

/// One output that was asked for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    /// Whether it said so itself.
    pub binary: Option<bool>,
}

/// A decoded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Infer {
    pub model: String,
    /// Empty where the rollout decides.
    pub version: String,
    pub id: String,
    pub inputs: Vec<Tensor>,
    /// Empty for all.
    pub wanted: Vec<Wanted>,
    pub form: Form,
    /// 0 is normal, 1 the highest, then 2, 3 ...; normal comes last.
    pub priority: u32,
    /// Microseconds from its arrival; 0 for none of its own.
    pub timeout_us: u64,
}

/// What a decoder says.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    Infer(Box<Infer>),
    /// It is right as far as it was looked at, but holds what only Python knows (an extension, a parameter).
    Unusual,
}
