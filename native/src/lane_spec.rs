//! What a lane knows of its model version, and whether a request fits it.

use std::time::Duration;

use crate::fault::{Fault, Kind};
use crate::infer::Infer;
use crate::lane_job::{element_offsets, Input};
use crate::tables::Table;
use crate::tensor::{Datatype, Tensor};

/// One input or output of a model.
#[derive(Debug, Clone)]
pub struct Port {
    pub name: String,
    pub datatype: Datatype,
    /// With the batch dimension; -1 where it may change.
    pub shape: Vec<i64>,
    /// Whether BYTES are text: then they must be UTF-8.
    pub text: bool,
}

/// A model version and how its requests become batches: `vitrify.serve.lanes.LaneSpec`.
#[derive(Debug, Clone)]
pub struct LaneSpec {
    pub model: String,
    pub version: String,
    pub digest: String,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub rows: usize,
    pub delay: Duration,
    pub queue: usize,
    pub queue_bytes: usize,
    pub instances: usize,
    pub seconds: Duration,
    pub run_seconds: Duration,
}

/// What is to become of a request.
#[derive(Debug)]
pub enum Fit {
    /// It is run here: the inputs in the model's order, the rows, and which outputs.
    Here { inputs: Vec<Input>, rows: usize, outputs: Vec<usize> },
    /// Only Python knows: no rows, or an element type that may be cast without loss.
    Python,
}

fn seconds(table: &Table) -> Duration {
    // Beyond a century the clock's arithmetic would end before the deadline does.
    Duration::from_secs_f64(table.number().clamp(0.0, 3e9))
}

fn ports(table: &Table) -> Result<Vec<Port>, String> {
    table
        .list()
        .iter()
        .map(|port| {
            let datatype = port.get("datatype").text();
            Ok(Port {
                name: port.get("name").text().to_owned(),
                datatype: Datatype::parse(datatype).ok_or_else(|| format!("datatype {datatype:?} is unknown"))?,
                shape: port.get("shape").list().iter().map(|size| size.number() as i64).collect(),
                text: port.get("text").yes(),
            })
        })
        .collect()
}

impl LaneSpec {
    /// Read what Python says.
    pub fn read(text: &str) -> Result<LaneSpec, String> {
        let table = Table::read(text)?;
        Ok(LaneSpec {
            model: table.get("model").text().to_owned(),
            version: table.get("version").text().to_owned(),
            digest: table.get("digest").text().to_owned(),
            inputs: ports(table.get("inputs"))?,
            outputs: ports(table.get("outputs"))?,
            rows: table.get("rows").count().max(1),
            delay: Duration::from_micros(table.get("delay_us").count() as u64),
            queue: table.get("queue").count(),
            queue_bytes: table.get("queue_bytes").count(),
            instances: table.get("instances").count().max(1),
            seconds: seconds(table.get("seconds")),
            run_seconds: seconds(table.get("run_seconds")),
        })
    }

    /// Match a request with the model: every input once, of its fixed dimensions, all with as many rows, and
    /// only outputs that there are.
    pub fn fit(&self, infer: &mut Infer) -> Result<Fit, Fault> {
        let outputs = self.outputs(infer)?;
        let mut found: Vec<Option<Tensor>> = self.inputs.iter().map(|_| None).collect();
        for tensor in std::mem::take(&mut infer.inputs) {
            let index = self.inputs.iter().position(|port| port.name == tensor.name);
            let index = index.ok_or_else(|| self.unknown("input", &tensor.name, &self.inputs))?;
            if found[index].is_some() {
                return refuse(format!("input {:?} is given twice", tensor.name));
            }
            found[index] = Some(tensor);
        }
        let mut inputs = Vec::with_capacity(found.len());
        for (index, (port, tensor)) in self.inputs.iter().zip(found).enumerate() {
            let tensor = tensor.ok_or_else(|| self.missing(port))?;
            // A cast that loses nothing, a last dimension of one: Python knows what fits all the same.
            if tensor.datatype != port.datatype || tensor.shape.len() != port.shape.len() {
                return Ok(Fit::Python);
            }
            inputs.push(self.input(index, port, tensor)?);
        }
        let rows = inputs.first().map_or(0, |input| input.shape[0]);
        if let Some(other) = inputs.iter().find(|input| input.shape[0] != rows) {
            let (first, name) = (&self.inputs[0].name, &self.inputs[other.index].name);
            return refuse(format!("input {name:?} has {} rows; input {first:?} has {rows}", other.shape[0]));
        }
        // Without any element, the count of rows could be anything: nothing bounds it.
        if rows == 0 || inputs.iter().any(|input| input.shape.contains(&0)) {
            return Ok(Fit::Python);
        }
        Ok(Fit::Here { inputs, rows: rows as usize, outputs })
    }

    fn input(&self, index: usize, port: &Port, tensor: Tensor) -> Result<Input, Fault> {
        let fits = tensor.shape.len() == port.shape.len()
            && !tensor.shape.is_empty()
            && port.shape.iter().zip(&tensor.shape).all(|(want, size)| *want < 0 || *want as u64 == *size);
        if !fits {
            return refuse(format!(
                "input {:?} takes {} {:?}; given is {} {:?}",
                port.name,
                port.datatype.name(),
                port.shape,
                tensor.datatype.name(),
                tensor.shape
            ));
        }
        let mut offsets = Vec::new();
        if port.datatype == Datatype::Bytes {
            let count = Tensor::elements(&tensor.shape).unwrap_or(usize::MAX);
            offsets = match element_offsets(&tensor.data, count) {
                Some(offsets) => offsets,
                None => {
                    return refuse(format!("input {:?} has not the {count} elements that its shape says", port.name))
                }
            };
            if port.text {
                for (element, pair) in offsets.windows(2).enumerate() {
                    if std::str::from_utf8(&tensor.data[pair[0] + 4..pair[1]]).is_err() {
                        return refuse(format!("input {:?}: element {element} is text, but no UTF-8", port.name));
                    }
                }
            }
        }
        Ok(Input { index, datatype: tensor.datatype, shape: tensor.shape, data: tensor.data, offsets })
    }

    fn outputs(&self, infer: &Infer) -> Result<Vec<usize>, Fault> {
        let mut outputs = Vec::with_capacity(infer.wanted.len());
        for wanted in &infer.wanted {
            let index = self.outputs.iter().position(|port| port.name == wanted.name);
            let index = index.ok_or_else(|| self.unknown("output", &wanted.name, &self.outputs))?;
            if outputs.contains(&index) {
                return refuse(format!("output {:?} is asked for twice", wanted.name));
            }
            outputs.push(index);
        }
        Ok(outputs)
    }

    fn unknown(&self, what: &str, name: &str, ports: &[Port]) -> Fault {
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        let shown: String = name.chars().take(100).collect();
        Fault::new(
            Kind::Signature,
            format!("model {:?} has no {what} {shown:?}; its {what}s are {names:?}", self.model),
        )
    }

    fn missing(&self, port: &Port) -> Fault {
        let message = format!("input {:?} is missing; it takes {} {:?}", port.name, port.datatype.name(), port.shape);
        Fault::new(Kind::Signature, message)
    }
}

fn refuse<T>(message: String) -> Result<T, Fault> {
    Err(Fault::new(Kind::Signature, message))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::infer::{Form, Wanted};

    pub(crate) fn spec(more: &str) -> LaneSpec {
        let text = format!(
            r#"{{"model":"m","version":"1","digest":"sha256:0","queue":64,"queue_bytes":100000,"seconds":60,
            "run_seconds":60,"rows":4,"inputs":[{{"name":"x","datatype":"FP32","shape":[-1,2]}}],
            "outputs":[{{"name":"y","datatype":"FP32","shape":[-1]}},{{"name":"z","datatype":"INT64","shape":[-1]}}]{more}}}"#
        );
        LaneSpec::read(&text).unwrap()
    }

    pub(crate) fn tensor(name: &str, datatype: Datatype, shape: &[u64], data: Vec<u8>) -> Tensor {
        Tensor { name: name.to_owned(), datatype, shape: shape.to_vec(), data }
    }

    pub(crate) fn infer(inputs: Vec<Tensor>, wanted: &[&str]) -> Infer {
        let wanted = wanted.iter().map(|name| Wanted { name: (*name).to_owned(), binary: None }).collect();
        let form = Form::Local;
        let (model, version, id) = ("m".to_owned(), String::new(), String::new());
        Infer { model, version, id, inputs, wanted, form, priority: 0, timeout_us: 0 }
    }

    fn x(rows: u64) -> Tensor {
        tensor("x", Datatype::Fp32, &[rows, 2], vec![0; rows as usize * 8])
    }

    fn message(inputs: Vec<Tensor>, wanted: &[&str]) -> String {
        spec("").fit(&mut infer(inputs, wanted)).unwrap_err().message
    }

    #[test]
    fn a_request_that_fits_is_run_here() {
        match spec("").fit(&mut infer(vec![x(3)], &["z", "y"])).unwrap() {
            Fit::Here { rows, outputs, .. } => assert_eq!((rows, outputs), (3, vec![1, 0])),
            Fit::Python => panic!(),
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert!(message(vec![], &[]).contains("input \"x\" is missing; it takes FP32 [-1, 2]"));
        assert!(message(vec![x(1), x(1)], &[]).contains("\"x\" is given twice"));
        assert!(message(vec![tensor("w", Datatype::Fp32, &[1], vec![0; 4])], &[]).contains("no input \"w\""));
        assert!(message(vec![tensor("x", Datatype::Fp32, &[1, 3], vec![0; 12])], &[]).contains("given is FP32 [1, 3]"));
        assert!(message(vec![x(1)], &["q"]).contains("no output \"q\""));
        assert!(message(vec![x(1)], &["y", "y"]).contains("asked for twice"));
    }

    #[test]
    fn no_rows_other_types_and_other_ranks_are_left_to_python() {
        let flat = tensor("x", Datatype::Fp32, &[2], vec![0; 8]);
        assert!(matches!(spec("").fit(&mut infer(vec![flat], &[])), Ok(Fit::Python)));
        assert!(matches!(spec("").fit(&mut infer(vec![x(0)], &[])), Ok(Fit::Python)));
        let double = tensor("x", Datatype::Fp64, &[1, 2], vec![0; 16]);
        assert!(matches!(spec("").fit(&mut infer(vec![double], &[])), Ok(Fit::Python)));
    }

    #[test]
    fn text_must_be_utf8_and_bytes_must_be_as_many_as_the_shape_says() {
        let mut spec = spec("");
        spec.inputs = vec![Port { name: "t".to_owned(), datatype: Datatype::Bytes, shape: vec![-1], text: true }];
        let bad = tensor("t", Datatype::Bytes, &[1], vec![1, 0, 0, 0, 0xff]);
        assert!(spec.fit(&mut infer(vec![bad], &[])).unwrap_err().message.contains("element 0"));
        let few = tensor("t", Datatype::Bytes, &[2], vec![1, 0, 0, 0, b'a']);
        assert!(spec.fit(&mut infer(vec![few], &[])).unwrap_err().message.contains("2 elements"));
        let good = tensor("t", Datatype::Bytes, &[1], vec![1, 0, 0, 0, b'a']);
        assert!(matches!(spec.fit(&mut infer(vec![good], &[])), Ok(Fit::Here { rows: 1, .. })));
    }
}
