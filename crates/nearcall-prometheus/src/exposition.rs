//! Counters as the text that Prometheus reads, format 0.0.4.
//!
//! **Invariants:** all samples of a metric stand together, below its help and type; label values
//! are escaped, so that no name of a server, an object or a method changes the structure; buckets
//! are cumulative, and the last one is the count.
//! **Not here:** asking servers (`lib.rs`).
//!
//! **Invariant:** no name changes the structure of the text, and a server that does not answer
//! keeps the others from nothing. *Checked by* `src/exposition.rs`, `tests/scrapes.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nearcall::Code;
use nearcall::control::{CallCounts, CountersReply, MethodCounts};
use nearcall::observe::CallTimes;

/// A server and what it has answered.
type Reply<'a> = (&'a str, Option<CountersReply>);

/// Upper bounds of buckets in powers of two, of ns: from 256 ns to 17 s. Each is a bound of
/// [`CallTimes`] as well, so that no time is counted in a bucket that it is not in.
const BOUND_POWERS: std::ops::RangeInclusive<u32> = 8..=34;

/// Writes all metrics of these servers.
pub(crate) fn text(replies: &[Reply<'_>]) -> String {
    let mut out = Text::default();
    out.head("nearcall_up", "gauge", "Whether the server answers.");
    for (server, reply) in replies {
        out.sample("nearcall_up", &[("server", server)], u8::from(reply.is_some()));
    }
    let answered: Vec<_> =
        replies.iter().filter_map(|(server, reply)| Some((*server, reply.as_ref()?))).collect();
    out.servers(&answered);
    out.methods(&answered);
    out.0
}

/// What is written so far.
#[derive(Default)]
struct Text(String);

/// A count of each method: its metric, type, help, and the count itself.
type MethodMetric = (&'static str, &'static str, &'static str, fn(&CallCounts) -> u64);

const METHOD_METRICS: [MethodMetric; 4] = [
    ("nearcall_calls_total", "counter", "Calls and one-way messages that have begun.", |it| {
        it.calls
    }),
    ("nearcall_in_flight", "gauge", "Calls that have not ended.", |it| it.in_flight),
    ("nearcall_received_bytes_total", "counter", "Bytes of requests and their items.", |it| {
        it.received_bytes
    }),
    ("nearcall_sent_bytes_total", "counter", "Bytes of results and items to clients.", |it| {
        it.sent_bytes
    }),
];

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let mut labels_text = String::new();
        for (label, value) in labels {
            let comma = if labels_text.is_empty() { "" } else { "," };
            let _ = write!(labels_text, "{comma}{label}=\"{}\"", escaped(value));
        }
        let _ = writeln!(self.0, "{name}{{{labels_text}}} {value}");
    }

    fn servers(&mut self, replies: &[(&str, &CountersReply)]) {
        let name = "nearcall_uptime_seconds";
        self.head(name, "gauge", "Time since the server was created.");
        for (server, reply) in replies {
            self.sample(name, &[("server", server)], reply.uptime_us as f64 / 1e6);
        }
        let name = "nearcall_process_cpu_seconds_total";
        self.head(name, "counter", "Processor time of the server's process.");
        for (server, reply) in replies {
            if let Some(cpu_ns) = reply.cpu_ns {
                self.sample(name, &[("server", server)], cpu_ns as f64 / 1e9);
            }
        }
        let name = "nearcall_connections";
        self.head(name, "gauge", "Open connections by mechanism, without that of the scrape.");
        for (server, reply) in replies {
            let mut by_mechanism = BTreeMap::<&str, u64>::new();
            for connection in reply.connections.iter().filter(|it| !it.is_asking) {
                *by_mechanism.entry(&connection.mechanism).or_default() += 1;
            }
            for (mechanism, count) in by_mechanism {
                self.sample(name, &[("server", server), ("mechanism", mechanism)], count);
            }
        }
    }

    fn methods(&mut self, replies: &[(&str, &CountersReply)]) {
        for (name, kind, help, count) in METHOD_METRICS {
            self.head(name, kind, help);
            each_method(replies, |_, labels, counts| self.sample(name, labels, count(counts)));
        }
        let name = "nearcall_errors_total";
        self.head(name, "counter", "Calls that ended with another status than OK.");
        each_method(replies, |_, labels, counts| {
            for error in &counts.errors {
                let code = u16::try_from(error.code)
                    .ok()
                    .and_then(Code::from_number)
                    .map_or("?", Code::name);
                let labels = [labels, &[("code", code)]].concat();
                self.sample(name, &labels, error.count);
            }
        });
        let name = "nearcall_call_duration_seconds";
        let help = "Time to serve a call, of one call in nearcall_timed_one_in of each method.";
        self.head(name, "histogram", help);
        each_method(replies, |_, labels, counts| self.times(name, labels, &counts.times));
        let name = "nearcall_timed_one_in";
        self.head(name, "gauge", "The server times one call in so many of each method.");
        for (server, reply) in replies {
            self.sample(name, &[("server", server)], reply.timed_one_in);
        }
    }

    /// Writes a histogram. The sum takes the middle of the bucket for each time in it: within 3 %.
    fn times(&mut self, name: &str, labels: &[(&str, &str)], times: &[u32]) {
        let bounds = |index: usize| (CallTimes::lowest_ns(index), CallTimes::lowest_ns(index + 1));
        let counts = times.iter().enumerate().map(|(index, count)| (bounds(index), *count));
        let bucket = format!("{name}_bucket");
        let (mut below, mut sum_ns, mut all) = (0_u64, 0.0, counts.peekable());
        let mut take = |until_ns: u64, below: &mut u64| {
            while let Some(((lowest, next), count)) =
                all.next_if(|((_, next), _)| *next <= until_ns)
            {
                *below += u64::from(count);
                sum_ns += (lowest + next) as f64 / 2.0 * f64::from(count);
            }
        };
        for power in BOUND_POWERS {
            let bound_ns = 1_u64 << power;
            take(bound_ns, &mut below);
            let bound = (bound_ns as f64 / 1e9).to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), below);
        }
        take(u64::MAX, &mut below);
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), below);
        self.sample(&format!("{name}_sum"), labels, sum_ns / 1e9);
        self.sample(&format!("{name}_count"), labels, below);
    }
}

/// Shows each method of each server with its labels.
fn each_method(
    replies: &[(&str, &CountersReply)],
    mut show: impl FnMut(&MethodCounts, &[(&str, &str)], &CallCounts),
) {
    for (server, reply) in replies {
        for method in &reply.methods {
            let Some(counts) = &method.counts else { continue };
            let labels =
                [("server", *server), ("object", &*method.object), ("method", &*method.method)];
            show(method, &labels, counts);
        }
    }
}

/// Returns a label value as it stands between quotation marks.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    use nearcall::control::ErrorCount;

    fn reply() -> CountersReply {
        let mut times = vec![0; 300];
        (times[10], times[150]) = (2, 1);
        let counts = CallCounts {
            calls: 96,
            in_flight: 1,
            errors: vec![ErrorCount { code: 5, count: 3 }],
            times,
            ..CallCounts::default()
        };
        let method = MethodCounts {
            object: "home.v1.Thermostat@\"a\\b\"\n".to_owned(),
            method: "SetTarget".to_owned(),
            counts: Some(counts),
        };
        CountersReply {
            timed_one_in: 32,
            uptime_us: 1_500_000,
            methods: vec![method],
            ..CountersReply::default()
        }
    }

    #[test]
    fn samples_stand_below_their_metric_and_names_are_escaped() {
        let text = text(&[("here", Some(reply())), ("gone", None)]);
        let labels = r#"server="here",object="home.v1.Thermostat@\"a\\b\"\n",method="SetTarget""#;
        let expected = [
            "nearcall_up{server=\"here\"} 1".to_owned(),
            "nearcall_up{server=\"gone\"} 0".to_owned(),
            "nearcall_uptime_seconds{server=\"here\"} 1.5".to_owned(),
            format!("nearcall_calls_total{{{labels}}} 96"),
            format!("nearcall_errors_total{{{labels},code=\"NOT_FOUND\"}} 3"),
            "nearcall_timed_one_in{server=\"here\"} 32".to_owned(),
        ];
        for line in expected {
            assert!(text.lines().any(|it| it == line), "{line} is not in:\n{text}");
        }
        let metric = |line: &str| line.split(['{', ' ']).next().unwrap_or("").to_owned();
        let mut last = String::new();
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(head) => last = metric(head),
                None if line.starts_with('#') => {}
                None => assert!(metric(line).starts_with(&last), "{line} is below {last}"),
            }
        }
    }

    #[test]
    fn buckets_are_cumulative_and_end_with_the_count() {
        let text = text(&[("here", Some(reply()))]);
        let name = "nearcall_call_duration_seconds";
        let value = |line: &str| line.rsplit(' ').next().and_then(|it| it.parse::<f64>().ok());
        let buckets: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with(&format!("{name}_bucket")))
            .map(|line| value(line).unwrap())
            .collect();
        assert_eq!(buckets.len(), BOUND_POWERS.count() + 1);
        assert!(buckets.is_sorted(), "{buckets:?}");
        assert_eq!((buckets[0], buckets[buckets.len() - 1]), (2.0, 3.0));
        let of = |end: &str| {
            let start = format!("{name}_{end}{{");
            text.lines().find(|line| line.starts_with(&start)).and_then(value).unwrap()
        };
        assert_eq!(of("count"), 3.0);
        let longest = CallTimes::lowest_ns(150) as f64 / 1e9;
        assert!((longest..1.1 * longest).contains(&of("sum")), "{}", of("sum"));
    }
}
