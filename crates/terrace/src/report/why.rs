//! Why a file's data lies where it does, and what would move it, in sentences.

use std::fmt::Write as _;
use std::path::Path;

use terrace_engine::{FileWhy, Kind, Leaves, counted};
use terrace_policy::Rule;

use super::line;
use crate::size::format_size;

/// What put the pieces of a file where they are, what is expected of it, and what would move it.
/// `target`: the file, if `path` is a symbolic link to it.
pub fn file_why(path: &Path, target: Option<&Path>, why: &FileWhy) -> String {
    let size = format_size(why.size_bytes);
    let mut text = line(&format!("{}: inode {}, {size}", path.display(), why.ino));
    if let Some(target) = target {
        text += &line(&format!("  a symbolic link: this is about {}", target.display()));
    }
    for share in &why.shares {
        let bytes = format_size(share.bytes);
        text += &line(&format!("  {bytes} in {}: {} ({})", share.place, share.why, share.rule));
    }
    if why.copies_bytes > 0 {
        let _ = writeln!(text, "  {} of copies in the page cache", format_size(why.copies_bytes));
    }
    if why.shares.is_empty() {
        text += match why.size_bytes {
            0 => "  it is empty\n",
            _ => "  it has no data: all of it is a hole, which takes no room and reads as zeros\n",
        };
    } else if is_only_reserved(why) {
        text += "  nothing has been written there yet: it reads as zeros\n";
    }
    let _ = writeln!(text, "expected: {}", kind(&why.kind, why.opinion.bulk));
    if why.shares.is_empty() {
        let place = why.pin.as_ref().map_or_else(String::new, |pin| {
            format!(", and what is written goes to {pin}, where it is pinned")
        });
        text += &line(&format!("what would move it: nothing, because it has no data{place}"));
        return text;
    }
    text += "what would move it:\n";
    prospects(why).iter().for_each(|what| text += &line(&format!("  {what}")));
    text
}

/// Whether the file has blocks, and no data in them.
fn is_only_reserved(why: &FileWhy) -> bool {
    why.shares.iter().all(|share| share.rule == Rule::Reserved.name())
}

/// What is expected of a file, and who says so.
fn kind(kind: &Kind, bulk: bool) -> String {
    let siblings = counted(kind.siblings.into(), "sibling", "siblings");
    let others = match (kind.siblings, kind.of_its_directory) {
        (0, _) => "as of a file of which nothing is known".to_owned(),
        (_, true) => format!("going by {siblings} in its directory"),
        (_, false) => format!("going by {siblings} elsewhere"),
    };
    let by = |itself, own: &str| if itself { own.to_owned() } else { others.clone() };
    let awaited = if kind.awaited { "awaited: somebody waits" } else { "nobody waits" };
    let shape = match (kind.scattered, kind.rewritten) {
        (false, false) => "they follow on each other",
        (true, false) => "they are scattered",
        (false, true) => "they replace what was there",
        (true, true) => "they are scattered and replace what was there",
    };
    let awaited_by = by(kind.awaited_by_itself, "as its own syncs show");
    let mut text = format!("{}{awaited} for its writes", if bulk { "bulk: " } else { "" });
    if kind.awaited_by_itself == kind.shape_by_itself {
        let both = by(kind.shape_by_itself, "as its own writes and syncs show");
        let _ = write!(text, ", and {shape}, {both}");
    } else {
        let shape_by = by(kind.shape_by_itself, "as its own writes show");
        let _ = write!(text, ", {awaited_by}, and {shape}, {shape_by}");
    }
    if kind.brief {
        let _ = write!(text, "; brief: it will be gone soon, {others}");
    }
    text
}

/// What would move a file's data, a sentence each.
fn prospects(why: &FileWhy) -> Vec<String> {
    let mut sentences = Vec::new();
    if why.dirty.bytes > 0 {
        let dirty = &why.dirty;
        sentences.push(format!(
            "{} in the page cache goes on at an fsync, or when it has waited for {} s ({} s so \
             far), or earlier when much is dirty ({} % of the page cache is)",
            format_size(dirty.bytes),
            dirty.after_seconds,
            dirty.seconds,
            dirty.cache_percent
        ));
    }
    if let Some(pin) = &why.pin {
        sentences.push(format!(
            "nothing moves it off {pin}, where it is pinned; `terrace unpin` lifts that"
        ));
        let elsewhere: u64 =
            why.leaves.iter().filter(|leaves| leaves.tier != *pin).map(|l| bytes_in(why, l)).sum();
        if elsewhere > 0 {
            let bytes = format_size(elsewhere);
            sentences.push(format!("{bytes} on other tiers goes there when there is room"));
        }
        return sentences;
    }
    if !why.migrates {
        sentences.push(
            "nothing moves by itself: migration is off, there are no disks, or the volume is \
             read-only"
                .to_owned(),
        );
    } else {
        sentences.extend(why.leaves.iter().filter_map(|leaves| leaving(why, leaves)));
        let has = |is_pm: bool| why.leaves.iter().any(|leaves| (leaves.tier == "pm") == is_pm);
        sentences.extend(has(true).then(|| read_migration(why)));
        sentences.extend(has(false).then(|| reverse_migration(why)));
    }
    if !why.leaves.is_empty() {
        sentences.push("by hand: `terrace evict`, `warm`, `pin`; or a write of it".to_owned());
    }
    sentences
}

fn bytes_in(why: &FileWhy, leaves: &Leaves) -> u64 {
    why.shares.iter().filter(|s| s.place == leaves.tier).map(|share| share.bytes).sum()
}

/// When cold data leaves a tier; `None`: there is nowhere to go.
fn leaving(why: &FileWhy, leaves: &Leaves) -> Option<String> {
    let Leaves { tier, used_percent, above_percent, to, held_up } = leaves;
    let to = to.as_ref()?;
    let is_full = match held_up {
        _ if used_percent <= above_percent => "not yet".to_owned(),
        None => "so data leaves it now".to_owned(),
        Some(why) => format!("so data would leave it now, but {why}"),
    };
    Some(format!(
        "{tier} to {to}: when {tier} is fuller than {above_percent:.0} % (it is {used_percent:.0} \
         %: {is_full}), the coldest files first; {}",
        coldness(why)
    ))
}

/// How cold a file is.
fn coldness(why: &FileWhy) -> String {
    let written = why.unwritten_seconds.unwrap_or(0);
    let counts = match why.grace_seconds {
        0 => String::new(),
        1.. => format!(", counts as {} s younger, being brief", why.grace_seconds),
        older => format!(", counts as {} s older, being bulk", older.unsigned_abs()),
    };
    let cold = match why.cold {
        true => "so all of it is cold".to_owned(),
        false => format!(
            "and is cold as a whole from {} s on; until then only its older blocks are cold",
            why.cold_age_seconds
        ),
    };
    let last = match is_only_reserved(why) {
        true => "it counts as written when it was made or changed,",
        false => "it was written",
    };
    format!("{last} {written} s ago{counts}, {cold}")
}

fn read_migration(why: &FileWhy) -> String {
    let dominated = if why.opinion.read_dominated { "it is" } else { "it is not" };
    let unless = match why.leaning.helpers_percent {
        0 => String::new(),
        percent => {
            let is = match why.leaning.pm_is_slower {
                None => "that is not known yet",
                Some(true) => "it takes longer",
                Some(false) => "it does: nothing moves",
            };
            format!("; unless PM takes less than {percent} % longer than memory ({is})")
        }
    };
    format!(
        "pm to a disk and the page cache: if it is read-dominated ({dominated}: {} read since it \
         was last written, and it takes more than {}), while DRAM idles: {} s in a row with more \
         than {} % as much read from PM as from DRAM ({}){unless}",
        counted(why.blocks_read, "block was", "blocks were"),
        why.blocks_read_of_others,
        why.leaning.seconds,
        why.leaning.high_percent,
        last_second(why, "read")
    )
}

fn reverse_migration(why: &FileWhy) -> String {
    let waits = match why.leaning.settles_in_seconds {
        0 => String::new(),
        seconds => format!("; it waits for {seconds} s of use more, because data had to leave PM"),
    };
    format!(
        "disks to pm: if it is read ({} read since it was last written), while PM idles: {} s in \
         a row with less than {} % as much read from PM as from DRAM ({}){waits}",
        counted(why.blocks_read, "block was", "blocks were"),
        why.leaning.seconds,
        why.leaning.low_percent,
        last_second(why, "reverse")
    )
}

/// What was read, and whether that migration is under way.
fn last_second(why: &FileWhy, migration: &str) -> String {
    let under_way = if why.leaning.migration == migration { ": so it moves now" } else { "" };
    format!(
        "in the last second with traffic {} and {}{under_way}",
        format_size(why.leaning.pm_read_bytes),
        format_size(why.leaning.dram_read_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_engine::{Dirty, FileOpinion, Leaning, Share};

    fn share(place: &str, rule: &str, bytes: u64) -> Share {
        let (place, rule) = (place.to_owned(), rule.to_owned());
        Share { place, rule, why: "came here".to_owned(), bytes }
    }

    fn of_two_tiers() -> FileWhy {
        let leaves = |tier: &str, used_percent, above_percent, to: Option<&str>| Leaves {
            tier: tier.to_owned(),
            used_percent,
            above_percent,
            to: to.map(str::to_owned),
            held_up: None,
        };
        FileWhy {
            ino: 7,
            size_bytes: 65536,
            shares: vec![
                share("pm", "small", 40960),
                share("pm", "warm", 4096),
                share("disk1", "cold", 16384),
                share("page cache", "bulk", 4096),
            ],
            copies_bytes: 8192,
            opinion: FileOpinion { bulk: true, ..FileOpinion::default() },
            kind: Kind { siblings: 9, of_its_directory: true, ..Kind::default() },
            migrates: true,
            leaves: vec![
                leaves("pm", 41.4, 62.0, Some("disk1")),
                leaves("disk1", 91.0, 90.0, None),
            ],
            unwritten_seconds: Some(12),
            cold_age_seconds: 30,
            grace_seconds: -30,
            cold: true,
            blocks_read: 1,
            blocks_read_of_others: 32,
            leaning: Leaning {
                migration: "reverse".to_owned(),
                pm_read_bytes: 0,
                dram_read_bytes: 4096,
                seconds: 4,
                high_percent: 200,
                low_percent: 50,
                settles_in_seconds: 0,
                helpers_percent: 25,
                pm_is_slower: Some(false),
            },
            dirty: Dirty { bytes: 4096, seconds: 2, after_seconds: 5, cache_percent: 3 },
            ..FileWhy::default()
        }
    }

    #[test]
    fn everything_is_said_with_its_numbers() {
        let expected = "\
/mnt/f: inode 7, 64 KiB
  40 KiB in pm: came here (small)
  4 KiB in pm: came here (warm)
  16 KiB in disk1: came here (cold)
  4 KiB in page cache: came here (bulk)
  8 KiB of copies in the page cache
expected: bulk: nobody waits for its writes, and they follow on each other, going by 9 \
siblings in its directory
what would move it:
  4 KiB in the page cache goes on at an fsync, or when it has waited for 5 s (2 s so far), or \
earlier when much is dirty (3 % of the page cache is)
  pm to disk1: when pm is fuller than 62 % (it is 41 %: not yet), the coldest files first; it was \
written 12 s ago, counts as 30 s older, being bulk, so all of it is cold
  pm to a disk and the page cache: if it is read-dominated (it is not: 1 block was read since it \
was last written, and it takes more than 32), while DRAM idles: 4 s in a row with more than 200 % \
as much read from PM as from DRAM (in the last second with traffic 0 B and 4 KiB); unless PM \
takes less than 25 % longer than memory (it does: nothing moves)
  disks to pm: if it is read (1 block was read since it was last written), while PM idles: 4 s in \
a row with less than 50 % as much read from PM as from DRAM (in the last second with traffic 0 B \
and 4 KiB: so it moves now)
  by hand: `terrace evict`, `warm`, `pin`; or a write of it
";
        assert_eq!(file_why(Path::new("/mnt/f"), None, &of_two_tiers()), expected);
    }

    #[test]
    fn pinned_files_stay_and_misplaced_data_comes() {
        let pinned =
            FileWhy { pin: Some("pm".to_owned()), dirty: Dirty::default(), ..of_two_tiers() };
        let expected = [
            "nothing moves it off pm, where it is pinned; `terrace unpin` lifts that",
            "16 KiB on other tiers goes there when there is room",
        ];
        assert_eq!(prospects(&pinned), expected);
        let off = FileWhy { migrates: false, dirty: Dirty::default(), ..of_two_tiers() };
        assert!(prospects(&off)[0].starts_with("nothing moves by itself"));
    }

    #[test]
    fn what_holds_a_migration_up_is_said() {
        let with = |settles_in_seconds, pm_is_slower| {
            let leaning = Leaning { settles_in_seconds, pm_is_slower, ..of_two_tiers().leaning };
            prospects(&FileWhy { leaning, ..of_two_tiers() }).join("\n")
        };
        let text = with(7, None);
        assert!(
            text.contains("; it waits for 7 s of use more, because data had to leave PM\n"),
            "{text}"
        );
        assert!(text.contains("memory (that is not known yet)\n"), "{text}");
        assert!(with(0, Some(true)).contains("memory (it takes longer)\n"));
        let leaning = Leaning { helpers_percent: 0, ..of_two_tiers().leaning };
        let text = prospects(&FileWhy { leaning, ..of_two_tiers() }).join("\n");
        assert!(!text.contains("longer than memory"), "{text}");
    }

    #[test]
    fn files_without_data_say_so() {
        let of = |why: FileWhy| file_why(Path::new("f"), Some(Path::new("/mnt/g")), &why);
        let empty = FileWhy { migrates: true, ..FileWhy::default() };
        let nothing = "\nwhat would move it: nothing, because it has no data";
        let text = of(empty.clone());
        assert!(
            text.contains("\n  a symbolic link: this is about /mnt/g\n  it is empty\n"),
            "{text}"
        );
        assert!(text.ends_with(&format!("{nothing}\n")), "{text}");
        let text = of(FileWhy { size_bytes: 9, pin: Some("pm".to_owned()), ..empty });
        assert!(
            text.contains("\n  it has no data: all of it is a hole, which takes no "),
            "{text}"
        );
        let pinned = ", and what is written goes to pm, where it is pinned\n";
        assert!(text.ends_with(&format!("{nothing}{pinned}")), "{text}");
        let reserved = FileWhy {
            shares: vec![share("pm", "reserved", 8192)],
            dirty: Dirty::default(),
            ..of_two_tiers()
        };
        let text = of(reserved);
        let told = "\n  8 KiB in pm: came here (reserved)\n  8 KiB of copies";
        assert!(
            text.contains(told) && text.contains("nothing has been written there yet"),
            "{text}"
        );
        assert!(
            text.contains("; it counts as written when it was made or changed, 12 s"),
            "{text}"
        );
    }

    #[test]
    fn what_is_expected_names_who_decided() {
        let of = |kind_of: Kind| kind(&kind_of, false);
        let nothing = Kind { awaited: true, ..Kind::default() };
        assert_eq!(
            of(nothing.clone()),
            "awaited: somebody waits for its writes, and they follow on each other, as of a file \
             of which nothing is known"
        );
        let own = Kind { awaited_by_itself: true, scattered: true, siblings: 1, ..nothing };
        assert_eq!(
            of(own.clone()),
            "awaited: somebody waits for its writes, as its own syncs show, and they are \
             scattered, going by 1 sibling elsewhere"
        );
        let brief = Kind { shape_by_itself: true, brief: true, siblings: 4, ..own };
        assert_eq!(
            of(brief),
            "awaited: somebody waits for its writes, and they are scattered, as its own writes \
             and syncs show; brief: it will be gone soon, going by 4 siblings elsewhere"
        );
    }
}
