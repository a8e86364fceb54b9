//! What is usual, for machines.

use super::micros;
use abide::engine::diagnose::observations::Observations;
use abide::engine::diagnose::past::Usual;
use abide::engine::measured::Measured;
use abide::engine::moment::Timestamp;
use serde::Serialize;

/// Of whole attempts, and of each stage.
#[derive(Debug, Serialize)]
pub(super) struct History {
    p50_us: Option<u64>,
    p99_us: Option<u64>,
    percentile_of_this: Option<u8>,
    stages: UsualStages,
    measured: Option<Calibrated>,
}

/// What stands in `[measured]` of the profile, of the time to the head of an answer; null without one.
#[derive(Debug, Serialize)]
struct Calibrated {
    at: Option<Timestamp>,
    samples: Option<u64>,
    p95_us: Option<u64>,
    p99_us: Option<u64>,
}

#[derive(Debug, Serialize)]
struct UsualStages {
    resolve: Option<Percentiles>,
    connect: Option<Percentiles>,
    tls: Option<Percentiles>,
    first_byte: Option<Percentiles>,
}

#[derive(Debug, Serialize)]
struct Percentiles {
    p50_us: u64,
    p99_us: u64,
}

impl History {
    /// Returns what is known from earlier.
    pub(super) fn of(seen: &Observations) -> History {
        let usual: Option<Usual> = seen.past.whole;
        let took = seen.exchange.as_ref().filter(|_| seen.answer().is_some()).map(|exchange| exchange.took);
        History {
            p50_us: usual.map(|usual| micros(usual.p50)),
            p99_us: usual.map(|usual| micros(usual.p99)),
            percentile_of_this: usual.zip(took).map(|(usual, took)| usual.percentile(took)),
            stages: UsualStages {
                resolve: seen.past.resolve.map(percentiles),
                connect: seen.past.connect.map(percentiles),
                tls: seen.past.tls.map(percentiles),
                first_byte: seen.past.first_byte.map(percentiles),
            },
            measured: measured(seen.past.measured),
        }
    }
}

fn measured(measured: Measured) -> Option<Calibrated> {
    let Measured { at, samples, p95, p99 } = measured;
    let is_known = measured != Measured::default();
    is_known.then(|| Calibrated { at, samples, p95_us: p95.map(micros), p99_us: p99.map(micros) })
}

fn percentiles(usual: Usual) -> Percentiles {
    Percentiles { p50_us: micros(usual.p50), p99_us: micros(usual.p99) }
}
