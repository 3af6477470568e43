//! Which version answers a request that names none: by weights, and by a key for those that have one.
//!
//! The rule, which `vitrify.serve.rollout` has too: a key's position is `(fnv1a64(key) >> 11) / 2^53`, a number from 0
//! to below 1. The weights, divided by their sum, are added up in the order of the table; the first version whose sum
//! is above the position answers. Without a key the position is drawn by chance.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tables::Table;

/// Versions with their weights added up, by model.
#[derive(Debug, Default)]
pub struct Routes {
    models: HashMap<String, Vec<(String, f64)>>,
}

impl Routes {
    /// Read `{"model": [["version", weight], ...]}`. A model all of whose weights are nothing has no route.
    pub fn read(text: &str) -> Result<Routes, String> {
        let mut models = HashMap::new();
        for (model, pairs) in Table::read(text)?.map() {
            let weights: Vec<(&str, f64)> = pairs
                .list()
                .iter()
                .map(|pair| {
                    (pair.list().first().map_or("", Table::text), pair.list().get(1).map_or(0.0, Table::number))
                })
                .collect();
            let sum: f64 = weights.iter().map(|(_, weight)| weight.max(0.0)).sum();
            if sum > 0.0 {
                models.insert(model.clone(), cumulated(&weights, sum));
            }
        }
        Ok(Routes { models })
    }

    /// The version for a position; none where the model has no route.
    pub fn choose(&self, model: &str, position: f64) -> Option<&str> {
        let sums = self.models.get(model)?;
        sums.iter().find(|(_, sum)| position < *sum).or_else(|| sums.last()).map(|(version, _)| version.as_str())
    }
}

fn cumulated(weights: &[(&str, f64)], total: f64) -> Vec<(String, f64)> {
    let mut sum = 0.0;
    let mut out = Vec::new();
    for (version, weight) in weights.iter().filter(|(_, weight)| *weight > 0.0) {
        sum += weight;
        out.push(((*version).to_owned(), sum / total));
    }
    out
}

fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// The position of a key.
pub fn position(key: &str) -> f64 {
    let hash =
        key.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    fraction(hash)
}

/// Numbers by chance: good enough to spread load and to name requests, not to keep a secret.
#[derive(Debug)]
pub struct Chance {
    state: AtomicU64,
}

impl Default for Chance {
    fn default() -> Chance {
        use std::collections::hash_map::RandomState;
        use std::hash::{BuildHasher, Hasher};
        Chance { state: AtomicU64::new(RandomState::new().build_hasher().finish()) }
    }
}

impl Chance {
    /// 64 bits (splitmix64).
    pub fn bits(&self) -> u64 {
        let mut mixed = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    pub fn position(&self) -> f64 {
        fraction(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv1a() {
        // Published vectors of FNV-1a with 64 bits: "" and "a".
        assert_eq!(position(""), fraction(0xcbf2_9ce4_8422_2325));
        assert_eq!(position("a"), fraction(0xaf63_dc4c_8601_ec8c));
    }

    #[test]
    fn weights_are_shares_in_the_order_of_the_table() {
        let routes = Routes::read(r#"{"m": [["1", 3], ["2", 0], ["3", 1]], "none": [["1", 0]]}"#).unwrap();
        assert_eq!(routes.choose("m", 0.0), Some("1"));
        assert_eq!(routes.choose("m", 0.7499), Some("1"));
        assert_eq!(routes.choose("m", 0.75), Some("3"));
        assert_eq!(routes.choose("m", 0.9999), Some("3"));
        assert_eq!(routes.choose("none", 0.5), None);
        assert_eq!(routes.choose("other", 0.5), None);
    }

    #[test]
    fn a_key_stays_where_it_is_and_keys_spread() {
        let routes = Routes::read(r#"{"m": [["1", 0.9], ["2", 0.1]]}"#).unwrap();
        let second =
            (0..10_000).filter(|key| routes.choose("m", position(&format!("user-{key}"))) == Some("2")).count();
        assert!((800..1200).contains(&second), "{second}");
        let chance = Chance::default();
        let second = (0..10_000).filter(|_| routes.choose("m", chance.position()) == Some("2")).count();
        assert!((800..1200).contains(&second), "{second}");
    }
}
