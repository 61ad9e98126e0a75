//! `calibrate`: the parameters of this machine for the simulator, by micro-benchmarks.
//!
//! Each figure is the median of [`RUNS`] runs.

use crate::cpus::{cpus, stay_on};
use anyhow::{Context, Result, anyhow};
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use uext4_sync::CachePadded;

const RUNS: usize = 5;
const ROUNDS: u64 = 200_000;
/// Wake-ups and switches cost microseconds.
const SLOW_ROUNDS: u64 = 2_000;

/// Prints all parameters in nanoseconds, as JSON.
pub(crate) fn run() -> Result<()> {
    let cpus = cpus()?;
    let [one, other] = [cpus[0], *cpus.get(1).context("it takes two CPUs")?];
    let mut figures = vec![
        ("hit_ns", median(|| Ok(hit()))?),
        ("rmw_ns", median(|| Ok(update()))?),
        ("near_ns", median(|| transfer(one, other))?),
        ("spin_ns", median(|| Ok(spin()))?),
        ("switch_ns", median(|| switch(one))?),
    ];
    let wakes = (0..RUNS)
        .map(|_| wake(one, other))
        .collect::<Result<Vec<_>>>()?;
    figures.push(("wake_ns", middle(wakes.iter().map(|wake| wake.0).collect())));
    figures.push((
        "wake_latency_ns",
        middle(wakes.iter().map(|wake| wake.1).collect()),
    ));
    let map: serde_json::Map<String, serde_json::Value> = figures
        .into_iter()
        .map(|(name, ns)| (name.to_owned(), ((ns * 10.0).round() / 10.0).into()))
        .collect();
    println!("{}", serde_json::to_string(&map)?);
    Ok(())
}

fn median(measure: impl Fn() -> Result<f64>) -> Result<f64> {
    Ok(middle((0..RUNS).map(|_| measure()).collect::<Result<_>>()?))
}

fn middle(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn per_round(rounds: u64, body: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..rounds).for_each(|_| body());
    start.elapsed().as_nanos() as f64 / rounds as f64
}

/// A load of a line that the core has.
fn hit() -> f64 {
    let word = AtomicU64::new(0);
    per_round(ROUNDS, || _ = black_box(black_box(&word).load(SeqCst)))
}

/// A read-modify-write of a line that the core has alone.
fn update() -> f64 {
    let word = AtomicU64::new(0);
    per_round(ROUNDS, || {
        _ = black_box(black_box(&word).fetch_add(1, SeqCst))
    })
}

/// Lines that two cores update in turn, and the number of the current turn.
struct Exchange {
    lines: Vec<CachePadded<AtomicU64>>,
    turn: AtomicU64,
}

impl Exchange {
    const LINES: usize = 512;
    const TURNS: u64 = 200;

    /// The turns of one of two players, on its core: nanoseconds for each line.
    fn play(&self, cpu: usize, player: u64) -> Result<Vec<f64>> {
        stay_on(cpu)?;
        let turns = (0..Self::TURNS).map(|round| self.take_turn(2 * round + player));
        Ok(turns.collect())
    }

    fn take_turn(&self, nr: u64) -> f64 {
        while self.turn.load(SeqCst) != nr {
            spin_loop();
        }
        let start = Instant::now();
        let mut at = 0;
        for _ in 0..Self::LINES {
            let seen = self.lines[at].fetch_add(1, SeqCst);
            // The next line depends on this one, so transfers do not overlap. Its upper
            // half is zero, and the prefetcher does not follow the stride.
            at = (at + 211 + (seen >> 32) as usize) % Self::LINES;
        }
        let ns = start.elapsed().as_nanos() as f64 / Self::LINES as f64;
        self.turn.store(nr + 1, SeqCst);
        ns
    }
}

/// Transfer of a line that the other core has changed: both update the same lines in turn. The
/// exchange of one word would cost more, because the waiting core takes it in between.
fn transfer(one: usize, other: usize) -> Result<f64> {
    let lines = (0..Exchange::LINES).map(|_| CachePadded::new(AtomicU64::new(0)));
    let ours = Arc::new(Exchange {
        lines: lines.collect(),
        turn: AtomicU64::new(0),
    });
    let shared = ours.clone();
    let mine = thread::spawn(move || ours.play(one, 0));
    let theirs = thread::spawn(move || shared.play(other, 1));
    mine.join().map_err(|_| anyhow!("a thread panicked"))??;
    let samples = theirs.join().map_err(|_| anyhow!("a thread panicked"))??;
    Ok(middle(samples) - update())
}

/// The rounds that `parking_lot` spins before it blocks: pauses of growing length, then yields.
fn spin() -> f64 {
    per_round(SLOW_ROUNDS, || {
        (1..=3).for_each(|round| (0..1 << round).for_each(|_| spin_loop()));
        (4..=10).for_each(|_| thread::yield_now());
    })
}

/// Switch of a core between two threads that yield to each other.
fn switch(cpu: usize) -> Result<f64> {
    let go = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let go = go.clone();
            thread::spawn(move || -> Result<f64> {
                stay_on(cpu)?;
                while !go.load(SeqCst) {
                    thread::yield_now();
                }
                Ok(per_round(SLOW_ROUNDS * 10, thread::yield_now))
            })
        })
        .collect();
    go.store(true, SeqCst);
    let mut each = 0.0;
    for thread in threads {
        each += thread.join().map_err(|_| anyhow!("a thread panicked"))?? / 4.0;
    }
    Ok(each)
}

/// Time of the call that wakes a blocked thread, and time until that thread runs.
fn wake(one: usize, other: usize) -> Result<(f64, f64)> {
    let origin = Instant::now();
    let woken_ns = Arc::new(AtomicU64::new(0));
    let theirs = woken_ns.clone();
    let sleeper = thread::spawn(move || -> Result<()> {
        stay_on(other)?;
        for _ in 0..SLOW_ROUNDS {
            thread::park();
            theirs.store(origin.elapsed().as_nanos() as u64, SeqCst);
        }
        Ok(())
    });
    let target = sleeper.thread().clone();
    let waker = thread::spawn(move || -> Result<(f64, f64)> {
        stay_on(one)?;
        let (mut calls, mut latencies) = (Vec::new(), Vec::new());
        for _ in 0..SLOW_ROUNDS {
            woken_ns.store(0, SeqCst);
            // Long enough for the other thread to block.
            let asleep = Instant::now() + Duration::from_micros(30);
            while Instant::now() < asleep {
                spin_loop();
            }
            let begin = origin.elapsed().as_nanos() as u64;
            target.unpark();
            calls.push((origin.elapsed().as_nanos() as u64 - begin) as f64);
            while woken_ns.load(SeqCst) == 0 {
                spin_loop();
            }
            latencies.push((woken_ns.load(SeqCst) - begin) as f64);
        }
        Ok((middle(calls), middle(latencies)))
    });
    let result = waker.join().map_err(|_| anyhow!("a thread panicked"))?;
    sleeper.join().map_err(|_| anyhow!("a thread panicked"))??;
    result
}
