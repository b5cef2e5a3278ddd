//! What is counted of every request, by route.
//!
//! A route is found once, with its meter beside it, so that counting looks nothing up. Meters are kept by route and
//! live as long as the process, as the series that they make do: a plugin that is replaced goes on counting where its
//! predecessor stopped.

use std::{collections::HashMap, sync::OnceLock, time::Duration};

use http::Method;
use parking_lot::Mutex;

use super::{
    histogram::{Histogram, Reading},
    shard::{Counter, Gauge},
};

/// Routes that have a meter of their own; beyond it they share one. Plugins bring routes, and could bring any number.
const MAX_ROUTES: usize = 2_000;
/// The label of what has no route.
const UNMATCHED: &str = "unmatched";
/// The label of what is passed on to an upstream.
const PROXIED: &str = "proxied";
/// The label of routes beyond [`MAX_ROUTES`].
const OTHER: &str = "other";
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", OTHER];

/// Of one route and method.
#[derive(Debug)]
pub struct Meter {
    pub method: &'static str,
    pub route: String,
    classes: [OnceLock<Histogram>; CLASSES.len()],
    plugin_us: Counter,
    database_us: Counter,
}

/// What a meter held when it was read.
pub struct MeterReading {
    pub meter: &'static Meter,
    /// By the index of the class in [`CLASSES`].
    pub classes: Vec<(usize, Reading)>,
    pub plugin_us: u64,
    pub database_us: u64,
}

impl Meter {
    fn new(method: &'static str, route: &str) -> &'static Self {
        Box::leak(Box::new(Self {
            method,
            route: route.to_owned(),
            classes: Default::default(),
            plugin_us: Counter::default(),
            database_us: Counter::default(),
        }))
    }

    /// Whether this is one route, and not what is counted together.
    pub fn is_of_a_route(&self) -> bool {
        self.route.starts_with('/')
    }

    /// A request that took so long, so much of it in the plugin and waiting for the database.
    pub fn observe(&self, status: u16, took: Duration, plugin: Duration, database: Duration) {
        let class = usize::from(status / 100).clamp(1, CLASSES.len()) - 1;
        self.classes[class].get_or_init(Histogram::default).observe(took);
        for (counter, part) in [(&self.plugin_us, plugin), (&self.database_us, database)] {
            if !part.is_zero() {
                counter.add(u64::try_from(part.as_micros()).unwrap_or(u64::MAX));
            }
        }
    }

    fn read(&'static self) -> MeterReading {
        let classes = self.classes.iter().enumerate();
        MeterReading {
            meter: self,
            classes: classes.filter_map(|(at, class)| Some((at, class.get()?.read()))).collect(),
            plugin_us: self.plugin_us.read(),
            database_us: self.database_us.read(),
        }
    }
}

/// The meters of every route, and what is counted of requests beside them.
#[derive(Debug)]
pub struct Requests {
    pub in_flight: Gauge,
    /// The client went away before its answer was there.
    pub abandoned: Counter,
    routes: Mutex<HashMap<(&'static str, String), &'static Meter>>,
    unmatched: [&'static Meter; METHODS.len()],
    proxied: [&'static Meter; METHODS.len()],
    other: &'static Meter,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            in_flight: Gauge::default(),
            abandoned: Counter::default(),
            routes: Mutex::default(),
            unmatched: METHODS.map(|method| Meter::new(method, UNMATCHED)),
            proxied: METHODS.map(|method| Meter::new(method, PROXIED)),
            other: Meter::new(OTHER, OTHER),
        }
    }
}

impl Requests {
    /// The meter of a route, made when there is none.
    pub fn route(&self, method: &Method, route: &str) -> &'static Meter {
        let method = METHODS[slot(method)];
        let mut routes = self.routes.lock();
        if let Some(known) = routes.get(&(method, route.to_owned())) {
            return known;
        }
        if routes.len() >= MAX_ROUTES {
            return self.other;
        }
        let meter = Meter::new(method, route);
        routes.insert((method, route.to_owned()), meter);
        meter
    }

    /// The meter of requests that no route was found for; their paths could be anything.
    pub fn unmatched(&self, method: &Method) -> &'static Meter {
        self.unmatched[slot(method)]
    }

    /// The meter of requests that an upstream answers.
    pub fn proxied(&self, method: &Method) -> &'static Meter {
        self.proxied[slot(method)]
    }

    /// Everything that was ever observed, in the order of routes and methods.
    pub fn read(&self) -> Vec<MeterReading> {
        let mut meters: Vec<&'static Meter> = self.routes.lock().values().copied().collect();
        meters.extend(self.unmatched);
        meters.extend(self.proxied);
        meters.push(self.other);
        meters.sort_unstable_by(|a, b| (&a.route, a.method).cmp(&(&b.route, b.method)));
        meters.into_iter().map(Meter::read).filter(|metered| !metered.classes.is_empty()).collect()
    }
}

fn slot(method: &Method) -> usize {
    METHODS.iter().position(|known| method == known).unwrap_or(METHODS.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_keeps_its_meter() {
        let requests = Requests::default();
        let meter = requests.route(&Method::GET, "/cards/{id}");
        assert!(std::ptr::eq(meter, requests.route(&Method::GET, "/cards/{id}")));
        assert!(!std::ptr::eq(meter, requests.route(&Method::POST, "/cards/{id}")));
        meter.observe(204, Duration::from_millis(3), Duration::ZERO, Duration::from_millis(2));
        let read = requests.read();
        assert_eq!(read.len(), 1, "what was never asked for is not shown");
        assert_eq!((read[0].classes[0].0, read[0].classes[0].1.sum_us, read[0].database_us), (1, 3_000, 2_000));
    }

    #[test]
    fn neither_routes_nor_methods_can_flood_the_series() {
        let requests = Requests::default();
        for n in 0..MAX_ROUTES + 50 {
            requests.route(&Method::GET, &format!("/r{n}")).observe(
                200,
                Duration::ZERO,
                Duration::ZERO,
                Duration::ZERO,
            );
        }
        for n in 0..50 {
            let odd = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
            requests.unmatched(&odd).observe(404, Duration::ZERO, Duration::ZERO, Duration::ZERO);
        }
        let read = requests.read();
        assert_eq!(read.len(), MAX_ROUTES + 2);
        let other = read.iter().find(|metered| metered.meter.route == OTHER).unwrap();
        assert_eq!(other.classes[0].1.count(), 50);
    }
}
