//! SQLite writer, and the expected content of its database after n transactions.
//!
//! Transaction `n` appends row `n` to a table and writes `n` into one of [`HOT_ROWS`] rows, so that
//! the WAL also contains pages from the middle of the database.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use uext4_testkit::rng::Rng;

/// Rows that transactions overwrite in turn.
const HOT_ROWS: u64 = 20;
/// Time limit of one query, in seconds. It allows for other load on the machine.
const SQLITE_SECONDS_MAX: &str = "600";
/// Exit status of `timeout` for an expired limit.
const TIMED_OUT: i32 = 124;

pub(super) struct Writer {
    seed: u64,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts sqlite3 and creates the database.
    pub(super) fn start(database: &Path, seed: u64) -> Result<Self> {
        let mut child = Command::new("stdbuf")
            .args(["-oL", "sqlite3", "-bail"])
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start sqlite3")?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().context("the output is piped")?;
        let mut writer = Self {
            seed,
            child,
            orders,
            answers: BufReader::new(answers),
        };
        // Frequent checkpoints: the order of WAL and database writes is what a cut can break.
        writer.ask("pragma journal_mode=wal;", "wal")?;
        writer.ask("pragma wal_autocheckpoint=30;", "30")?;
        let tables = "pragma synchronous=full; create table rows(a integer primary key, b text); \
                      create table hot(k integer primary key, v integer); select 'made';";
        writer.ask(tables, "made")?;
        Ok(writer)
    }

    /// Commits transaction `nr`; returns after SQLite acknowledged it.
    pub(super) fn commit(&mut self, nr: u64) -> Result<()> {
        let (text, hot) = (text(self.seed, nr), nr % HOT_ROWS);
        let order = format!(
            "begin; insert into rows values({nr}, '{text}'); \
             insert or replace into hot values({hot}, {nr}); commit; select 'did', {nr};"
        );
        self.ask(&order, &format!("did|{nr}"))
    }

    /// Kills sqlite3, because a regular exit would checkpoint its WAL.
    pub(super) fn stop(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn ask(&mut self, order: &str, expected: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("it is there until it ends")?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        ensure!(answer.trim_end() == expected, "sqlite3 answers {answer:?}");
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Content of row `nr`: 400 to 2000 hexadecimal digits, a tenth to a half of a page.
fn text(seed: u64, nr: u64) -> String {
    let mut rng = Rng::new(seed).fork(nr);
    let len = rng.between(200, 1000) as usize;
    rng.bytes(len)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Opens the database, which recovers it, and returns the number of its transactions.
///
/// The database is damaged, or its content matches no number of transactions.
pub(super) fn judge(database: &Path, seed: u64) -> Result<u64> {
    let look = "pragma integrity_check; select name from sqlite_master order by name;";
    let found = sqlite(database, look)?;
    let mut lines = found.lines();
    ensure!(lines.next() == Some("ok"), "integrity_check: {found}");
    let tables: Vec<_> = lines.collect();
    if tables != ["hot", "rows"] {
        // The tables are created in this order.
        ensure!(
            tables.is_empty() || tables == ["rows"],
            "tables: {tables:?}"
        );
        return Ok(0);
    }
    let rows = sqlite(database, "select a, b from rows order by a;")?;
    let n_rows = rows.lines().count() as u64;
    for (line, nr) in rows.lines().zip(1..) {
        ensure!(
            line == format!("{nr}|{}", text(seed, nr)),
            "row {nr} of {n_rows}"
        );
    }
    let hot = sqlite(database, "select k, v from hot order by k;")?;
    ensure!(
        hot == expected_hot(n_rows),
        "after {n_rows} transactions: {hot}"
    );
    Ok(n_rows)
}

fn expected_hot(n_rows: u64) -> String {
    let mut lines = String::new();
    for hot in 0..HOT_ROWS {
        let newest = (1..=n_rows).rev().find(|nr| nr % HOT_ROWS == hot);
        if let Some(newest) = newest {
            lines += &format!("{hot}|{newest}\n");
        }
    }
    lines
}

fn sqlite(database: &Path, order: &str) -> Result<String> {
    let output = Command::new("timeout")
        .args([SQLITE_SECONDS_MAX, "sqlite3", "-bail"])
        .arg(database)
        .arg(order)
        .output()
        .context("timeout is there")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() != Some(TIMED_OUT),
        "sqlite3 did not answer within {SQLITE_SECONDS_MAX} s"
    );
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
