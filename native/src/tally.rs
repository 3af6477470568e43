//! How many requests the native plane has answered itself, by what Python's figures count by: protocol, route, status.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use crate::figures::{Histogram, BOUNDS};
use crate::lane_job::lock;
use crate::tables::quote;

struct Route {
    statuses: BTreeMap<u16, u64>,
    seconds: Histogram,
}

#[derive(Default)]
struct Counts {
    /// A handful: the hot routes, and those that were refused. Which routes there are, clients have no say in.
    routes: Vec<(&'static str, String, Route)>,
    received: u64,
    sent: u64,
}

/// The counts since the start.
#[derive(Default)]
pub struct Tally(Mutex<Counts>);

impl Tally {
    /// Count a request that has ended, with the bytes of its body and of its answer's.
    pub fn add(
        &self,
        protocol: &'static str,
        route: &str,
        status: u16,
        total: Duration,
        (received, sent): (usize, usize),
    ) {
        let mut counts = lock(&self.0);
        counts.received += received as u64;
        counts.sent += sent as u64;
        let place = counts.routes.iter().position(|(one, name, _)| *one == protocol && name == route);
        let place = place.unwrap_or_else(|| {
            let fresh = Route { statuses: BTreeMap::new(), seconds: Histogram::new(&BOUNDS) };
            counts.routes.push((protocol, route.to_owned(), fresh));
            counts.routes.len() - 1
        });
        let found = &mut counts.routes[place].2;
        *found.statuses.entry(status).or_insert(0) += 1;
        found.seconds.add(total.as_secs_f64());
    }

    /// Write it as fields of a JSON object.
    pub fn json(&self, out: &mut String) {
        let counts = lock(&self.0);
        let _ = write!(out, "\"received\":{},\"sent\":{},\"routes\":[", counts.received, counts.sent);
        for (place, (protocol, name, route)) in counts.routes.iter().enumerate() {
            let _ = write!(out, "{}{{\"protocol\":\"{protocol}\",\"route\":", if place > 0 { "," } else { "" });
            quote(name, out);
            out.push_str(",\"statuses\":{");
            for (place, (status, count)) in route.statuses.iter().enumerate() {
                let _ = write!(out, "{}\"{status}\":{count}", if place > 0 { "," } else { "" });
            }
            out.push_str("},\"seconds\":");
            route.seconds.json(out);
            out.push('}');
        }
        out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Table;

    #[test]
    fn each_request_is_counted_once_where_it_belongs() {
        let tally = Tally::default();
        for (protocol, route, status) in [("rest", "a", 200), ("rest", "a", 200), ("rest", "a", 400), ("grpc", "a", 0)]
        {
            tally.add(protocol, route, status, Duration::from_millis(3), (10, 1));
        }
        let mut text = String::from("{");
        tally.json(&mut text);
        text.push('}');
        let table = Table::read(&text).unwrap();
        assert_eq!((table.get("received").count(), table.get("sent").count()), (40, 4));
        let routes = table.get("routes").list();
        assert_eq!(routes.len(), 2, "{text}");
        let (rest, grpc) = (&routes[0], &routes[1]);
        assert_eq!((rest.get("protocol").text(), grpc.get("protocol").text()), ("rest", "grpc"));
        assert_eq!(rest.get("statuses").get("200").count(), 2);
        assert_eq!(rest.get("statuses").get("400").count(), 1);
        assert_eq!(grpc.get("statuses").get("0").count(), 1);
        let counts: usize = rest.get("seconds").get("counts").list().iter().map(Table::count).sum();
        assert_eq!(counts, 3);
    }
}
