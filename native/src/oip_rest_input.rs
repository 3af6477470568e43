//! One input of a REST request: its fields in whatever order they come, and its tensor.

use std::borrow::Cow;

use crate::flaw::{excerpt, Flaw, Found};
use crate::json::Reader;
use crate::json_values::{parameters, whole};
use crate::oip_rest_data::{self as data, RANK};
use crate::rows::check_raw;
use crate::tensor::{Datatype, Tensor};

/// The fields of an input, in whatever order they come.
#[derive(Default)]
struct Fields<'a> {
    name: Option<Cow<'a, str>>,
    datatype: Option<Datatype>,
    shape: Option<Vec<u64>>,
    data: Option<(data::Nest, Vec<u8>)>,
    /// Where the data lie that came before their datatype.
    early: Option<usize>,
    binary: Option<usize>,
}

/// Read an input. Where it says that its bytes are in the binary part, its size there is the second.
pub fn read(reader: &mut Reader) -> Found<(Tensor, Option<usize>)> {
    let mut fields = Fields::default();
    reader.object(|reader, key| {
        fields.field(reader, key).map_err(|flaw| match key {
            "parameters" => flaw,
            _ => flaw.within(format_args!(".{}", key)),
        })
    })?;
    fields.finish(reader.bytes())
}

/// Take a tensor's bytes from the binary part, and return the rest of it.
pub fn fill<'a>(tensor: &mut Tensor, size: usize, raw: &'a [u8]) -> Found<&'a [u8]> {
    if size > raw.len() {
        return Err(Flaw::signature(format!("found {}, but only {} bytes are left in the body", size, raw.len())));
    }
    let (own, rest) = raw.split_at(size);
    check_raw(tensor.datatype, &tensor.shape, own).map_err(Flaw::signature)?;
    tensor.data = own.to_vec();
    Ok(rest)
}

impl<'a> Fields<'a> {
    fn field(&mut self, reader: &mut Reader<'a>, key: &str) -> Found<()> {
        match key {
            "name" => self.name = Some(reader.string()?),
            "datatype" => {
                let name = reader.string()?;
                self.datatype = Some(Datatype::parse(&name).ok_or_else(|| unknown(&name))?);
            }
            "shape" => self.shape = Some(shape(reader)?),
            "data" => match self.datatype {
                Some(datatype) => self.data = Some(self.values(reader, datatype)?),
                None => {
                    reader.peek();
                    self.early = Some(reader.at());
                    reader.skip()?;
                }
            },
            "parameters" => parameters(reader, |reader, key| match key {
                "binary_data_size" => {
                    let size = whole(reader, true)?;
                    self.binary = Some(usize::try_from(size).unwrap_or(usize::MAX));
                    Ok(())
                }
                _ => Err(Flaw::unusual()),
            })?,
            _ => reader.skip()?,
        }
        Ok(())
    }

    fn values(&self, reader: &mut Reader<'a>, datatype: Datatype) -> Found<(data::Nest, Vec<u8>)> {
        // Elements are two bytes of JSON at least: one that says more takes no memory by saying so.
        let most = reader.left() / 2 + 1;
        let count = self.shape.as_ref().and_then(|shape| Tensor::elements(shape)).unwrap_or(0).min(most);
        let mut out = Vec::with_capacity(count * datatype.size());
        let nest = data::read(reader, datatype, &mut out)?;
        Ok((nest, out))
    }

    fn finish(mut self, json: &'a [u8]) -> Found<(Tensor, Option<usize>)> {
        let missing = |field: &str| Flaw::signature("missing").within(format_args!(".{}", field));
        let name = self.name.take().ok_or_else(|| missing("name"))?.into_owned();
        let datatype = self.datatype.ok_or_else(|| missing("datatype"))?;
        if let Some(at) = self.early {
            let values = self.values(&mut Reader::new(json, at), datatype);
            self.data = Some(values.map_err(|flaw| flaw.within(".data"))?);
        }
        let shape = self.shape.take().ok_or_else(|| missing("shape"))?;
        let data = match (self.data, self.binary) {
            (Some((nest, bytes)), None) => {
                nest.agrees(&shape).map_err(|flaw| flaw.within(".data"))?;
                bytes
            }
            (None, Some(_)) => Vec::new(),
            (None, None) => return Err(missing("data")),
            (Some(_), Some(_)) => {
                let found = "has both data and parameters.binary_data_size, expected one of them";
                return Err(Flaw::signature(found));
            }
        };
        Ok((Tensor { name, datatype, shape, data }, self.binary))
    }
}

fn shape(reader: &mut Reader) -> Found<Vec<u64>> {
    let mut shape = Vec::with_capacity(4);
    reader.array(|reader, index| {
        if index == RANK {
            return Err(Flaw::signature(format!("has more than {} dimensions", RANK)));
        }
        shape.push(whole(reader, false).map_err(|flaw| flaw.within(format_args!("[{}]", index)))?);
        Ok(())
    })?;
    match Tensor::elements(&shape) {
        Some(_) => Ok(shape),
        None => Err(Flaw::signature(format!("{:?} is beyond all memory", shape))),
    }
}

/// A datatype that does not exist.
#[cold]
pub fn unknown(name: &str) -> Box<Flaw> {
    let known: Vec<&str> = Datatype::ALL.iter().map(|one| one.name()).collect();
    Flaw::signature(format!("found \"{}\", expected one of {}", excerpt(name.as_bytes()), known.join(", ")))
}
