//! What messages of a mount cost: operations of programs on servers that run in processes of their
//! own, in rounds over all servers, so that a busy moment of the machine hits all alike.
//!
//! | module | holds |
//! |---|---|
//! | `server` | the servers, mounted anew for each round |
//! | `nothing` | the file system that does nothing, in a process of its own |
//! | `client` | what programs do, and what it takes |
//! | `rest` | memory of the transport, and wake-ups of a mount at rest |

mod client;
pub mod nothing;
mod rest;
mod server;

use anyhow::{Context, Result};

use crate::files::{self, OnFiles};
use crate::interrupt;
use crate::median::median;
use crate::names;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Cell, Row, Unit};
use crate::stage::Room;
use crate::workload::Sizes;

pub use client::why_no_sqlite;
use server::Server;

/// The file that is read and written; small, since it is made for each server in each round.
const FILE_BYTES: u64 = 4 << 20;
/// Transactions of SQLite.
const COMMITS: u64 = 3000;
/// Do-nothing over io_uring takes at most 1.6 times as long as the floor.
const REACH_FLOOR: f64 = 1.0 / 1.6;
/// Of the rate of the file system that does nothing.
const REACH_NOTHING: f64 = 0.9;
/// Two clients, compared with the older program, where wake-ups are dear.
const REACH_TWO_CLIENTS: f64 = 1.6;
/// Wake-ups are dear where messages on /dev/fuse take so many times as long as without any.
const DEAR: f64 = 2.0;

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Files(OnFiles),
    /// SQLite's transactions with this kind of journal, in at most the inverse of this ratio of the
    /// older program's time where wake-ups are dear.
    Sqlite {
        journal: &'static str,
        reach: f64,
    },
}

/// An operation, and by how many clients.
#[derive(Clone, Copy, Debug)]
struct Operation {
    name: &'static str,
    clients: usize,
    act: Act,
    /// Its messages have targets; else it is made of others that have.
    targeted: bool,
}

const fn one(name: &'static str, on_files: OnFiles, targeted: bool) -> Operation {
    Operation { name, clients: 1, act: Act::Files(on_files), targeted }
}

const fn two(name: &'static str, on_files: OnFiles) -> Operation {
    Operation { name, clients: 2, act: Act::Files(on_files), targeted: true }
}

const fn sqlite(name: &'static str, journal: &'static str, reach: f64) -> Operation {
    Operation { name, clients: 1, act: Act::Sqlite { journal, reach }, targeted: true }
}

static OPERATIONS: [Operation; 10] = [
    one("4 KiB write", files::overwrite, true),
    one("4 KiB write + fsync", files::overwrite_fsync, true),
    one("4 KiB read, cold", files::cold_read, true),
    one("create", names::create, true),
    one("unlink", names::unlink, true),
    one("create + unlink", names::create_unlink, false),
    two("4 KiB write, two clients", files::overwrite),
    two("create + unlink, two clients", names::create_unlink),
    sqlite("SQLite, 3,000 commits, DELETE", "delete", 2.0),
    sqlite("SQLite, 3,000 commits, WAL", "wal", 1.0 / 0.6),
];

impl Operation {
    /// The floor has one CPU for all; the file system that does nothing keeps no databases.
    fn runs_on(&self, server: Server) -> bool {
        match (server, self.act) {
            (Server::Floor, Act::Files(_)) => self.clients == 1,
            (Server::Floor | Server::Nothing { .. }, Act::Sqlite { .. }) => false,
            _ => true,
        }
    }

    fn unit(&self) -> Unit {
        match self.act {
            Act::Files(_) => Unit::Microseconds,
            Act::Sqlite { .. } => Unit::Milliseconds,
        }
    }

    fn row_name(&self, server: Server) -> String {
        format!("message: {}, {}", self.name, server.name())
    }

    fn ratio_row_name(&self, server: Server, against: &str) -> String {
        format!("{} vs {against}", self.row_name(server))
    }

    /// The ratio to reach; `dear`: whether wake-ups are, where that is known.
    fn reach(&self, server: Server, against: Server, dear: Option<bool>) -> Option<f64> {
        let one_client = self.targeted && self.clients == 1;
        match (server, against, self.act) {
            (Server::Nothing { ring: true }, Server::Floor, _) if one_client => Some(REACH_FLOOR),
            (Server::Terrace { .. }, Server::Nothing { .. }, _) if one_client => {
                Some(REACH_NOTHING)
            }
            (Server::Terrace { ring: true, .. }, Server::Before, act) => {
                let where_dear = match act {
                    Act::Files(_) if self.clients == 1 => return None,
                    Act::Files(_) => REACH_TWO_CLIENTS,
                    Act::Sqlite { reach, .. } => reach,
                };
                dear.map(|dear| if dear { where_dear } else { 1.0 })
            }
            _ => None,
        }
    }
}

/// What one operation took on one server.
#[derive(Debug)]
struct Figures {
    operation: &'static Operation,
    server: Server,
    /// In each round.
    took: Vec<f64>,
}

/// Each operation on each server that it runs on.
fn pairs() -> impl Iterator<Item = (&'static Operation, Server)> {
    let of = |operation: &'static Operation| Server::ALL.map(|server| (operation, server));
    OPERATIONS.iter().flat_map(of).filter(|(operation, server)| operation.runs_on(*server))
}

/// Names of the rows of one operation on one server, and of those that compare it with `with`.
fn names_of(operation: &Operation, server: Server, with: impl Fn(Server) -> bool) -> Vec<String> {
    let is_compared = |other: Server| operation.runs_on(other) && with(other);
    let compared = server.baselines().into_iter().filter(|(_, other)| is_compared(*other));
    std::iter::once(operation.row_name(server))
        .chain(compared.map(|(against, _)| operation.ratio_row_name(server, against)))
        .collect()
}

/// Names of all rows.
pub fn row_names() -> Vec<String> {
    let of_operations =
        pairs().flat_map(|(operation, server)| names_of(operation, server, |_| true));
    of_operations.chain(rest::ROWS.iter().map(|&name| name.to_owned())).collect()
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    let pm_bytes = server::pm_bytes(options);
    Room { shm: pm_bytes, cached: pm_bytes, ..Room::default() }
}

/// Measures.
///
/// # Errors
/// If a server that should serve does not, or an operation fails.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let (servers, mut skipped) = servers(options);
    let mut all = needed(options, &servers);
    let without_sqlite = why_no_sqlite();
    if let Some(why) = &without_sqlite {
        let why = format!("rows on SQLite are skipped: {why:#}");
        let is_sqlite = |figures: &Figures| matches!(figures.operation.act, Act::Sqlite { .. });
        for figures in all.extract_if(.., |figures| is_sqlite(figures)) {
            skipped.extend(not_measured(figures.operation, figures.server, options, &why));
        }
    }
    for round in 1..=options.rounds {
        for &server in &servers {
            let mut of_server: Vec<&mut Figures> =
                all.iter_mut().filter(|figures| figures.server == server).collect();
            if of_server.is_empty() {
                continue;
            }
            progress.step(&format!("round {round} of {}, {}", options.rounds, server.name()));
            round_on(server, &mut of_server, options)
                .with_context(|| format!("on {}", server.name()))?;
        }
    }
    let mut rows = rows(&all);
    rows.extend(rest::run(&servers, options, progress)?);
    rows.extend(skipped);
    Ok(rows)
}

/// The servers that can serve here, and rows for those that cannot.
fn servers(options: &Options) -> (Vec<Server>, Vec<Row>) {
    let (mut servers, mut rows) = (Vec::new(), Vec::new());
    for server in Server::ALL {
        match server.why_not(options) {
            None => servers.push(server),
            Some(error) => {
                let why = format!("rows of {} are skipped: {error:#}", server.name());
                eprintln!("terrace-bench: {why}");
                if is_asked_for(server, options) {
                    let of_server = pairs().filter(|&(_, one)| one == server);
                    rows.extend(
                        of_server.flat_map(|(operation, _)| {
                            not_measured(operation, server, options, &why)
                        }),
                    );
                }
            }
        }
    }
    (servers, rows)
}

fn not_measured(operation: &Operation, server: Server, options: &Options, why: &str) -> Vec<Row> {
    let names = names_of(operation, server, |other| is_asked_for(other, options));
    let selected = names.into_iter().filter(|name| options.selects(name));
    selected.map(|name| Row::not_measured(name, why.to_owned())).collect()
}

/// An older program is there only if somebody names one.
fn is_asked_for(server: Server, options: &Options) -> bool {
    server != Server::Before || options.before.is_some()
}

/// What has to be measured for the rows that are selected.
fn needed(options: &Options, servers: &[Server]) -> Vec<Figures> {
    let is_needed = |operation: &Operation, server: Server| {
        let own = options.selects(&operation.row_name(server));
        own || pairs().filter(|(one, _)| one.name == operation.name).any(|(_, other)| {
            other.baselines().into_iter().any(|(against, baseline)| {
                let is_of_it = server == other || server == baseline;
                is_of_it
                    && servers.contains(&other)
                    && servers.contains(&baseline)
                    && options.selects(&operation.ratio_row_name(other, against))
            })
        })
    };
    pairs()
        .filter(|&(operation, server)| servers.contains(&server) && is_needed(operation, server))
        .map(|(operation, server)| Figures { operation, server, took: Vec::new() })
        .collect()
}

/// All that is measured on one server in one round.
fn round_on(server: Server, figures: &mut [&mut Figures], options: &Options) -> Result<()> {
    let sizes = Sizes { file_bytes: FILE_BYTES, ..Sizes::on_mounts(options) };
    let commits = if options.quick { COMMITS / 50 } else { COMMITS };
    let (served, cpu) = (server.mount(options)?, server.cpu()?);
    let root = served.mountpoint();
    for figures in figures {
        interrupt::check()?;
        let operation = figures.operation;
        let took = match operation.act {
            Act::Files(on_files) => {
                client::micros_per_op(&root, on_files, operation.clients, sizes, cpu)
            }
            Act::Sqlite { journal, .. } => {
                client::sqlite_millis(&root, served.memory(), journal, commits)
            }
        };
        figures.took.push(took.context(operation.name)?);
    }
    served.strike()
}

fn rows(all: &[Figures]) -> Vec<Row> {
    let dear = are_wakeups_dear(all);
    all.iter().flat_map(|figures| rows_of(figures, all, dear)).collect()
}

fn find<'a>(all: &'a [Figures], operation: &str, server: Server) -> Option<&'a Figures> {
    all.iter().find(|figures| figures.operation.name == operation && figures.server == server)
}

/// Whether a thread that is woken is so much slower than one that runs already.
fn are_wakeups_dear(all: &[Figures]) -> Option<bool> {
    let write = OPERATIONS[0].name;
    let (floor, device) =
        (find(all, write, Server::Floor)?, find(all, write, Server::Nothing { ring: false })?);
    Some(median(&device.took) >= DEAR * median(&floor.took))
}

fn rows_of(figures: &Figures, all: &[Figures], dear: Option<bool>) -> Vec<Row> {
    let Figures { operation, server, took } = figures;
    let (lowest, highest) = spread(took);
    let cell = |against| {
        Some(Cell { operation: operation.name, server: server.name(), against, lowest, highest })
    };
    let figure = Row::figure(&operation.row_name(*server), operation.unit(), median(took));
    let mut rows = vec![Row { cell: cell(None), ..figure }];
    for (against, baseline) in server.baselines() {
        let Some(baseline_took) = find(all, operation.name, baseline).map(|other| &other.took)
        else {
            continue;
        };
        let ratios: Vec<f64> =
            took.iter().zip(baseline_took).map(|(took, baseline)| baseline / took).collect();
        let (ratio_min, ratio_max) = spread(&ratios);
        let name = operation.ratio_row_name(*server, against);
        let (baseline_median, reach) =
            (median(baseline_took), operation.reach(*server, baseline, dear));
        let (unit, ratio) = (operation.unit(), median(&ratios));
        let row = Row::new(name, unit, baseline_median, median(took), ratio, reach);
        rows.push(Row { ratio_min, ratio_max, cell: cell(Some(against)), ..row });
    }
    rows
}

fn spread(samples: &[f64]) -> (f64, f64) {
    let lowest = samples.iter().copied().fold(f64::INFINITY, f64::min);
    (lowest, samples.iter().copied().fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const NULL: Server = Server::Nothing { ring: false };
    const NULL_RING: Server = Server::Nothing { ring: true };
    const DEVICE: Server = Server::Terrace { ring: false, keeper: true };
    const RING: Server = Server::Terrace { ring: true, keeper: false };

    fn figures(operation: usize, server: Server, took: &[f64]) -> Figures {
        Figures { operation: &OPERATIONS[operation], server, took: took.to_vec() }
    }

    fn options(filter: &str) -> Options {
        Options::parse_from(["terrace-bench", "--quick", "--filter", filter])
    }

    #[test]
    fn ratios_are_taken_round_by_round_and_more_is_better() {
        let all = [
            figures(0, Server::Floor, &[6.0, 6.0, 12.0]),
            figures(0, NULL_RING, &[8.0, 9.0, 16.0]),
            figures(0, RING, &[9.0, 10.0, 18.0]),
        ];
        let rows = rows(&all);
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        let null = row("message: 4 KiB write, do-nothing over io_uring vs floor");
        assert_eq!((null.baseline, null.ours, null.ratio), (Some(6.0), 9.0, Some(0.75)));
        assert_eq!((null.reach, null.met), (Some(0.625), Some(true)));
        let terrace = row("message: 4 KiB write, Terrace over io_uring vs do-nothing");
        assert_eq!((terrace.ratio, terrace.met), (Some(8.0 / 9.0), Some(false)));
        let alone = row("message: 4 KiB write, floor");
        assert!(alone.ratio.is_none() && alone.cell.is_some_and(|cell| cell.highest == 12.0));
        assert!(!rows.iter().any(|row| row.name.contains("before")));
    }

    #[test]
    fn targets_against_the_older_program_depend_on_the_machine() {
        let (write_two, wal) = (&OPERATIONS[6], &OPERATIONS[9]);
        let reach = |operation: &Operation, dear| operation.reach(RING, Server::Before, dear);
        assert_eq!((reach(write_two, Some(true)), reach(wal, Some(false))), (Some(1.6), Some(1.0)));
        assert_eq!(reach(wal, None), None);
        let dear = [figures(0, Server::Floor, &[6.0]), figures(0, NULL, &[25.0])];
        assert_eq!(are_wakeups_dear(&dear), Some(true));
        assert_eq!(are_wakeups_dear(&dear[..1]), None);
    }

    #[test]
    fn a_filter_measures_both_sides_of_a_row_and_no_more() {
        let servers = Server::ALL;
        let of = |filter: &str| -> Vec<(&str, Server)> {
            let all = needed(&options(filter), &servers);
            all.iter().map(|figures| (figures.operation.name, figures.server)).collect()
        };
        let sides = of("message: create, Terrace on /dev/fuse vs do-nothing");
        assert_eq!(sides, [("create", NULL), ("create", DEVICE)]);
        assert_eq!(of("message: unlink, floor"), [("unlink", Server::Floor)]);
        assert_eq!(of("message:").len(), pairs().count());
        assert!(needed(&options("vs before"), &servers[..3]).is_empty());
    }
}
