//! Tensors as they travel: a datatype of the Open Inference Protocol, a shape, and raw little-endian bytes.

/// Element types. BYTES elements are a length of four bytes, little-endian, and so many bytes, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Datatype {
    Bool,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Int8,
    Int16,
    Int32,
    Int64,
    Fp16,
    Bf16,
    Fp32,
    Fp64,
    Bytes,
}

impl Datatype {
    /// Every datatype, in the order of the numbers by which Python knows them.
    pub const ALL: [Datatype; 14] = [
        Datatype::Bool,
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
        Datatype::Int8,
        Datatype::Int16,
        Datatype::Int32,
        Datatype::Int64,
        Datatype::Fp16,
        Datatype::Bf16,
        Datatype::Fp32,
        Datatype::Fp64,
        Datatype::Bytes,
    ];

    /// As the protocol writes it.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32",
            "FP64", "BYTES",
        ];
        NAMES[self as usize]
    }

    /// From what the protocol writes.
    pub fn parse(name: &str) -> Option<Datatype> {
        Datatype::ALL.iter().copied().find(|one| one.name() == name)
    }

    /// Bytes an element; 0 for BYTES.
    pub fn size(self) -> usize {
        const SIZES: [usize; 14] = [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 0];
        SIZES[self as usize]
    }
}

/// One named array. `data` holds exactly the elements that `shape` says: whoever makes a tensor has checked that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    pub datatype: Datatype,
    pub shape: Vec<u64>,
    pub data: Vec<u8>,
}

impl Tensor {
    /// The number of elements, or none where it is beyond what a machine can count.
    pub fn elements(shape: &[u64]) -> Option<usize> {
        shape.iter().try_fold(1usize, |product, size| product.checked_mul(usize::try_from(*size).ok()?))
    }

    /// The first dimension.
    pub fn rows(&self) -> usize {
        self.shape.first().map_or(0, |size| *size as usize)
    }
}
