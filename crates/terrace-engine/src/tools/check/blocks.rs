//! Who owns which block: nobody twice, and the checkpoint says the same.

use terrace_layout::{BLOCK_BYTES, BlockAddr, DeviceEntry};
use terrace_store::alloc::DeviceAlloc;
use terrace_store::checkpoint;
use terrace_store::damage::Structure;
use terrace_store::superblock::areas;

use super::tree::Tree;
use super::{Check, Finding, Remedy, What};
use crate::base::types::Ino;
use crate::mount::offline::Offline;
use crate::mount::scan::{ProblemKind, Usage};

/// Runs of blocks that a message lists.
const RUNS_SHOWN: usize = 8;

/// A claim on blocks; without an inode it is the volume's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    addr: BlockAddr,
    blocks: u64,
    ino: Option<Ino>,
}

impl Claim {
    fn end(&self) -> u64 {
        self.addr.0.saturating_add(self.blocks)
    }

    fn meets(&self, other: &Claim) -> bool {
        self.addr.0 < other.end() && other.addr.0 < self.end()
    }
}

impl Check<'_> {
    /// Names everybody who claims blocks that are claimed more than once.
    pub(super) fn contested(&self, offline: &Offline, tree: &Tree) {
        let contested: Vec<Claim> = tree.scan.problems.iter().filter_map(contested_claim).collect();
        if contested.is_empty() {
            return;
        }
        let mut claims: Vec<Claim> = self.claims_of_the_volume(offline);
        for &ino in tree.scan.references.keys() {
            let ino = Ino(ino);
            if let Some((_, Ok(inner))) = self.load(offline, ino) {
                claims.extend(inner.owned().into_iter().map(|(addr, blocks)| Claim {
                    addr,
                    blocks,
                    ino: Some(ino),
                }));
            }
        }
        claims.retain(|claim| contested.iter().any(|c| c.meets(claim)));
        claims.sort_unstable();
        let Some(mut reach) = claims.first().copied() else {
            return;
        };
        for &claim in &claims[1..] {
            if claim.meets(&reach) {
                self.shared(&reach, &claim);
            }
            if claim.end() > reach.end() {
                reach = claim;
            }
        }
    }

    fn claims_of_the_volume(&self, offline: &Offline) -> Vec<Claim> {
        let regions = self.sb.present().map(|d| (BlockAddr::new(d.index, 0), d.data_start));
        let tables = offline
            .tables
            .iter()
            .flat_map(|table| table.runs())
            .map(|run| (BlockAddr::pm(run.start), run.len));
        regions.chain(tables).map(|(addr, blocks)| Claim { addr, blocks, ino: None }).collect()
    }

    fn shared(&self, a: &Claim, b: &Claim) {
        let (from, to) = (a.addr.0.max(b.addr.0), a.end().min(b.end()));
        let start = BlockAddr(from);
        let range = format!("{} to {}", start.block(), start.block() + (to - from) - 1);
        for (ino, other) in [(a.ino, b.ino), (b.ino, a.ino)] {
            let owner = match other {
                Some(other) if Some(other) == ino => "twice".to_owned(),
                Some(other) => format!("and so does inode {}", other.0),
                None => "which the volume itself needs".to_owned(),
            };
            if ino.is_some() || other.is_none() {
                let what = format!("it owns blocks {range}, {owner}");
                self.found(Finding::loss(usize::from(start.device()), ino, what));
            }
        }
    }

    /// Compares the checkpoint, if there is one, with what the logs say. `sound`: they say all;
    /// otherwise what they do not name may be in use.
    pub(super) fn checkpoint(&self, offline: &mut Offline, tree: &Tree, sound: bool) {
        let wrong = |device: usize, what: What| {
            self.found(Finding::flaw(device, None, what, Remedy::DropCheckpoint { always: false }));
        };
        let harmful = |device: usize, what: String| {
            self.found(Finding::flaw(device, None, what, Remedy::DropCheckpoint { always: true }));
        };
        let Some(header) = checkpoint::usable_header(self.pm, &self.sb) else {
            if self.checkpoint_claims() {
                harmful(
                    0,
                    "the checkpoint claims to be valid, but is damaged or of another mount".into(),
                );
            }
            return;
        };
        for (i, area) in areas(self.pm, &self.disks) {
            let device = self.sb.devices[i];
            let loaded =
                checkpoint::load_device(area, device, &header.devices[i], self.sb.shards.into());
            match loaded
                .map_err(|e| e.into_damage(device.index, Structure::FreeSpace, None).into())
                .and_then(|alloc| checkpointed(&alloc, &device))
            {
                Err(what) => wrong(i, what),
                Ok(usage) => {
                    let truth = &tree.scan.usage[i];
                    let lost = runs(truth, |w| usage.word(w) & !truth.word(w));
                    let double = runs(truth, |w| truth.word(w) & !usage.word(w));
                    if sound && !lost.is_empty() {
                        wrong(
                            i,
                            format!(
                                "the checkpoint keeps blocks that nobody owns: {}",
                                list(&lost)
                            )
                            .into(),
                        );
                    }
                    if !double.is_empty() {
                        harmful(
                            i,
                            format!(
                                "the checkpoint calls blocks free that are in use: {}",
                                list(&double)
                            ),
                        );
                    }
                }
            }
        }
        if !offline.damage.is_empty() {
            return;
        }
        let mut in_use = 0;
        for (shard, table) in offline.tables.iter_mut().enumerate() {
            let (_, noted) = table.counts();
            table.recount(self.pm);
            let (records, free) = table.counts();
            in_use += records - free;
            if noted != free {
                wrong(
                    0,
                    format!(
                        "the inode table of shard {shard} notes {noted} free records, but has \
                         {free}"
                    )
                    .into(),
                );
            }
        }
        if header.inodes != in_use {
            wrong(
                0,
                format!(
                    "the checkpoint notes {} inodes in use, but there are {in_use}",
                    header.inodes
                )
                .into(),
            );
        }
    }
}

fn contested_claim(problem: &crate::mount::scan::Problem) -> Option<Claim> {
    match problem.kind {
        ProblemKind::Contested(addr, blocks) => {
            Some(Claim { addr, blocks, ino: problem.damage.ino })
        }
        _ => None,
    }
}

/// What the checkpoint of a device calls used.
fn checkpointed(alloc: &DeviceAlloc, device: &DeviceEntry) -> Result<Usage, What> {
    let usage = Usage::new(device.blocks);
    alloc.visit_used(|run| {
        usage.mark(run.start, run.len);
    });
    if alloc.is_damaged() {
        return Err("checkpoint: a bitmap is damaged".into());
    }
    if let Some(error) = alloc.trouble() {
        return Err(error.into_damage(device.index, Structure::FreeSpace, None).into());
    }
    let mut wrong = None;
    let visited = alloc.visit_groups(|g, words, free| {
        let clear =
            words.map_or(free, |words| words.iter().map(|w| u64::from(w.count_zeros())).sum());
        if clear != free {
            let what = format!(
                "checkpoint: group {g} notes {free} free blocks, but its bitmap has {clear}"
            );
            wrong = Some(What::from(what));
        }
    });
    visited.map_err(|error| error.into_damage(device.index, Structure::FreeSpace, None))?;
    if alloc.blocks() - alloc.free_blocks() != usage.used() && wrong.is_none() {
        wrong = Some("checkpoint: blocks beyond the end of the device count as free".into());
    }
    wrong.map_or(Ok(usage), Err)
}

/// Runs of set bits, in order.
fn runs(usage: &Usage, word: impl Fn(usize) -> u64) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for i in 0..usage.words() {
        let mut bits = word(i);
        while bits != 0 {
            let block = i as u64 * 64 + u64::from(bits.trailing_zeros());
            bits &= bits - 1;
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == block => *last = block,
                _ => runs.push((block, block)),
            }
        }
    }
    runs
}

fn list(runs: &[(u64, u64)]) -> String {
    let shown = runs.iter().take(RUNS_SHOWN);
    let mut text: Vec<String> =
        shown.map(|(a, b)| if a == b { a.to_string() } else { format!("{a} to {b}") }).collect();
    if runs.len() > RUNS_SHOWN {
        text.push(format!("and {} more runs", runs.len() - RUNS_SHOWN));
    }
    let blocks: u64 = runs.iter().map(|(a, b)| b - a + 1).sum();
    format!("{} ({} bytes)", text.join(", "), blocks * BLOCK_BYTES)
}
