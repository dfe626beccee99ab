//! What `terrace top` draws: how full the tiers are, what they do, what flows between them, and the
//! hottest and coldest files. Pure: values in, cells out.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table};
use terrace_engine::{FileRanking, RankedFile, Stats, WaitStats};

use crate::output::in_a_line;
use crate::report::{
    FLOWS, PASSAGES, Passages, cache_line, cause_words, direct_line, format_time, passages,
    per_second, pm_stores, share,
};
use crate::size::{format_size, percent};

/// Cells of a bar.
const BAR_CELLS: u64 = 16;
/// Lines that a frame and a heading take.
const FRAME_LINES: usize = 3;
/// Lines of what is said of the page cache and the predictors, with their frame.
const REST_LINES: u16 = 6;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Where the volume is mounted.
    pub place: &'a str,
    /// What was done since then.
    pub total: &'a Stats,
    /// What was done lately.
    pub interval: &'a Stats,
    /// The files that are used most and least.
    pub files: &'a FileRanking,
}

impl View<'_> {
    /// An amount of the last period, per second.
    fn rate(&self, amount: u64) -> u64 {
        per_second(amount, self.interval.elapsed_ms)
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let lines = |rows: usize| u16::try_from(rows + FRAME_LINES).unwrap_or(u16::MAX);
    let tiers = view.interval.tiers.len();
    let waits = waiting(view).count().max(1);
    // What says more comes first if there is no room for everything. A part that does not fit
    // whole makes room for those behind it.
    let parts: [(u16, Part); 6] = [
        (lines(tiers), draw_tiers),
        (lines(tiers + 1), draw_passages),
        (lines(waits), draw_waits),
        (REST_LINES, draw_rest),
        (lines(FLOWS.len()), draw_flows),
        (lines(1), draw_files),
    ];
    let mut left = frame.area().height.saturating_sub(1);
    let shown: Vec<(u16, Part)> = parts
        .into_iter()
        .filter(|&(height, _)| {
            let fits = height <= left;
            left -= if fits { height } else { 0 };
            fits
        })
        .collect();
    // The last part, which is that of the files if there is room, has what is left.
    let heights = shown.iter().map(|&(height, _)| Constraint::Length(height));
    let heights = std::iter::once(Constraint::Length(1)).chain(heights);
    let areas = Layout::vertical(heights).flex(Flex::Start).split(frame.area());
    draw_title(frame, areas[0], view);
    for (&area, &(height, draw)) in areas[1..].iter().zip(&shown) {
        let is_last = area.y + height == frame.area().bottom() - left;
        draw(frame, Rect { height: height + if is_last { left } else { 0 }, ..area }, view);
    }
}

/// Draws a part of the screen.
type Part = fn(&mut Frame<'_>, Rect, &View<'_>);

fn draw_title(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let seconds = view.total.elapsed_ms / 1000;
    let mounted =
        format!("mounted for {}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    frame.render_widget(Line::from(format!(" {}, {mounted}", in_a_line(view.place))).bold(), area);
    frame.render_widget(Line::from("q quits ").right_aligned(), area);
}

fn draw_tiers(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let rows = view.interval.tiers.iter().map(|tier| {
        Row::new([
            Line::from(tier.name.clone()),
            Line::from(bar(
                &[(tier.used_bytes, fullness(tier.used_bytes, tier.capacity_bytes))],
                tier.capacity_bytes,
            )),
            right(format!("{} %", percent(tier.used_bytes, tier.capacity_bytes))),
            right(format_size(tier.free_bytes)),
            right(view.rate(tier.reads).to_string()),
            right(view.rate(tier.writes).to_string()),
            right(format_size(view.rate(tier.read_bytes))),
            right(format_size(view.rate(tier.written_bytes))),
        ])
    });
    let heading = ["TIER", "", ">USE%", ">FREE", ">READS/S", ">WRITES/S", ">READ/S", ">WRITE/S"];
    let widths = [6, BAR_CELLS as u16, 5, 9, 7, 8, 9, 9];
    frame.render_widget(table(rows, heading, widths, "tiers"), area);
}

/// What comes to the tiers and the page cache, and what leaves them.
fn draw_passages(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let rows = passages(view.interval).into_iter().map(|Passages { place, bytes }| {
        let rate = |bytes: u64| format_size(view.rate(bytes));
        let rates = bytes.map(|bytes| right(bytes.map_or_else(|| "-".to_owned(), rate)));
        let row = Row::new([Line::from(place)].into_iter().chain(rates));
        if bytes.into_iter().flatten().any(|bytes| bytes > 0) { row.bold() } else { row.dim() }
    });
    let [a, b, c, d, e, f] = PASSAGES;
    let heading = ["TIER", a, b, c, d, e, f].map(|heading| match heading {
        "TIER" => Line::from(heading),
        heading => right(heading.to_owned()),
    });
    let widths = [6, 10, 12, 10, 10, 10, 10].map(Constraint::Length);
    let table = Table::new(rows, widths).header(Row::new(heading).style(Style::new().dim()));
    frame.render_widget(table.block(Block::bordered().title("in and out, per second")), area);
}

/// What somebody waits for, or has waited for.
fn waiting<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a WaitStats, &'a WaitStats)> {
    let total = |lately: &WaitStats| view.total.waits.iter().find(|w| w.cause == lately.cause);
    let waits = view.interval.waits.iter().filter_map(move |lately| Some((lately, total(lately)?)));
    waits.filter(|(lately, total)| lately.waiting + total.waits > 0)
}

/// Who waits.
fn draw_waits(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let rows = waiting(view).map(|(lately, total)| {
        let row = Row::new([
            Line::from(cause_words(lately).to_owned()),
            right(lately.waiting.to_string()),
            right(lately.last_second.to_string()),
            right(total.waits.to_string()),
            right(format_time(total.total_ns)),
            right(format_time(total.longest_ns)),
        ]);
        if lately.last_second > 0 { row.bold() } else { row.dim() }
    });
    let heading = ["FOR", ">NOW", ">LAST SECOND", ">WAITS", ">TOTAL", ">LONGEST"];
    let widths = [26, 5, 11, 9, 9, 9];
    let title = match waiting(view).next() {
        Some(_) => "who waits",
        None => "who waits: nobody has, so far",
    };
    frame.render_widget(table(rows, heading, widths, title), area);
}

fn draw_flows(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let rows = FLOWS.iter().map(|flow| {
        let lately = view.interval.counters.get(flow.counter);
        let row = Row::new([
            Line::from(flow.way),
            Line::from(flow.name),
            right(format_size(view.rate(lately))),
            right(format_size(view.total.counters.get(flow.counter))),
        ]);
        if lately > 0 { row.bold() } else { row.dim() }
    });
    frame.render_widget(
        table(rows, ["WAY", "", ">PER SECOND", ">IN ALL"], [23, 18, 10, 10], "flows"),
        area,
    );
}

/// The page cache, and what the predictors are worth.
fn draw_rest(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let (lately, cache) = (view.interval, &view.interval.cache);
    let mut cached = bar(
        &[(cache.dirty_bytes, Color::Yellow), (cache.clean_bytes, Color::Green)],
        cache.budget_bytes,
    );
    cached.push(Span::raw(format!(" {}", cache_line(lately))));
    let predictions = format!(
        "{} lately, {} in all",
        share(lately.predictor_accuracy),
        share(view.total.predictor_accuracy)
    );
    let direct = direct_line(lately).unwrap_or_else(|| "nothing is lent".to_owned());
    let text = vec![
        Line::from(cached),
        Line::from(format!("predictions that came true: {predictions}")),
        Line::from(format!("stored to PM: {}", pm_stores(view.total))),
        Line::from(format!("direct path: {direct}")),
    ];
    frame.render_widget(
        Paragraph::new(text).block(Block::bordered().title("page cache, predictors")),
        area,
    );
}

/// The hottest and the coldest files, as many as there is room for.
fn draw_files(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let files = view.files;
    let row = |what: &'static str, file: &RankedFile| {
        let bytes: Vec<String> = file
            .bytes
            .iter()
            .map(|(tier, &bytes)| format!("{tier} {}", format_size(bytes)))
            .collect();
        let path = file.path.clone().unwrap_or_else(|| format!("inode {}", file.ino));
        Row::new([
            Line::from(what),
            Line::from(in_a_line(&path).into_owned()),
            Line::from(bytes.join(", ")),
            right(ago(file.mean_read_age_seconds)),
            right(ago(file.mean_write_age_seconds)),
        ])
    };
    // Both halves get their share of few lines.
    let room = usize::from(area.height).saturating_sub(FRAME_LINES);
    let cold = files.coldest.len().min(room / 2).max(room.saturating_sub(files.hottest.len()));
    let hot = files.hottest.iter().take(room.saturating_sub(cold.min(files.coldest.len())));
    let rows = hot
        .map(|file| row("hot", file))
        .chain(files.coldest.iter().take(cold).map(|file| row("cold", file)));
    let heading = ["", "FILE", "BYTES", ">READ", ">WRITTEN"];
    let widths = [
        Constraint::Length(4),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(6),
        Constraint::Length(7),
    ];
    frame.render_widget(table(rows, heading, widths, "hottest and coldest files"), area);
}

/// How long ago something was, in a few letters.
fn ago(seconds: Option<u64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds @ 0..100) => format!("{seconds} s"),
        Some(seconds @ 100..6000) => format!("{} min", seconds / 60),
        Some(seconds @ 6000..172_800) => format!("{} h", seconds / 3600),
        Some(seconds) => format!("{} d", seconds / 86400),
    }
}

/// A framed table; headings that begin with `>` are aligned to the right, as their cells are.
fn table<'a, const N: usize>(
    rows: impl Iterator<Item = Row<'a>>,
    heading: [&'a str; N],
    widths: [impl Into<Constraint>; N],
    title: &'a str,
) -> Table<'a> {
    let heading = heading.map(|name| match name.strip_prefix('>') {
        Some(name) => right(name.to_owned()),
        None => Line::from(name),
    });
    Table::new(rows, widths.map(Into::into))
        .header(Row::new(heading).style(Style::new().dim()))
        .block(Block::bordered().title(title))
}

fn right<'a>(text: String) -> Line<'a> {
    Line::from(text).right_aligned()
}

/// A bar of parts of `whole`, each in its colour. A part that is not nothing is seen.
fn bar<'a>(parts: &[(u64, Color)], whole: u64) -> Vec<Span<'a>> {
    let mut left = BAR_CELLS;
    let mut spans = Vec::new();
    for &(part, color) in parts {
        let cells = u128::from(part) * u128::from(BAR_CELLS) / u128::from(whole.max(1));
        let cells = u64::try_from(cells).unwrap_or(BAR_CELLS).max(u64::from(part > 0)).min(left);
        left -= cells;
        spans.push(Span::styled("█".repeat(cells as usize), color));
    }
    spans.push(Span::raw("·".repeat(left as usize)));
    spans
}

/// The colour of something that is so full.
fn fullness(used: u64, whole: u64) -> Color {
    match percent(used, whole) {
        0..70 => Color::Green,
        70..90 => Color::Yellow,
        _ => Color::Red,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use terrace_engine::{CacheStats, LoanStats, TierStats};

    const MIB: u64 = 1 << 20;

    fn stats(elapsed_ms: u64, factor: u64) -> Stats {
        let tier = |tier, used_bytes| TierStats {
            tier,
            name: if tier == 0 { "pm".to_owned() } else { format!("disk{tier}") },
            capacity_bytes: 1000 * MIB,
            used_bytes,
            free_bytes: 1000 * MIB - used_bytes,
            reads: 100 * factor,
            read_bytes: factor * MIB,
            writes: 50 * factor,
            written_bytes: 2 * factor * MIB,
            file_read_bytes: factor * MIB,
            moved_in_bytes: factor * 2048,
            ..TierStats::default()
        };
        let counters = format!(
            r#"{{"pm_written_bytes": {}, "written_back_bytes": {},
                "cache_hits": 3, "cache_misses": 1}}"#,
            10 * factor * MIB,
            4 * factor * MIB
        );
        Stats {
            uuid: "0123".to_owned(),
            elapsed_ms,
            tiers: vec![tier(0, 750 * MIB), tier(1, 950 * MIB), tier(2, 1)],
            cache: CacheStats { budget_bytes: 64 * MIB, clean_bytes: 32 * MIB, dirty_bytes: MIB },
            speeds: Vec::new(),
            waits: vec![
                WaitStats { cause: "room".to_owned(), ..WaitStats::default() },
                WaitStats {
                    cause: "flush".to_owned(),
                    waiting: 1,
                    last_second: 3,
                    waits: 7 * factor,
                    total_ns: factor * 1_000_000,
                    longest_ns: 400_000,
                },
            ],
            loans: LoanStats::default(),
            counters: serde_json::from_str(&counters).unwrap(),
            pm_stored_bytes: 11 * factor * MIB,
            pm_fences: 20,
            pm_write_amplification: Some(1.1),
            predictor_accuracy: Some(0.9),
            wear: Default::default(),
        }
    }

    fn files() -> FileRanking {
        let file = |ino, path: Option<&str>, bytes: &[(&str, u64)], read, written| RankedFile {
            ino,
            path: path.map(str::to_owned),
            bytes: bytes.iter().map(|&(tier, bytes)| (tier.to_owned(), bytes)).collect(),
            mean_read_age_seconds: read,
            mean_write_age_seconds: Some(written),
        };
        FileRanking {
            hottest: vec![
                file(7, Some("/db/wal"), &[("pm", 3 * MIB), ("cache", MIB)], Some(2), 1),
                file(
                    8,
                    Some("/a path that is too long for its column"),
                    &[("disk1", MIB)],
                    None,
                    240,
                ),
            ],
            coldest: vec![file(9, None, &[("disk2", MIB)], Some(20_000), 400_000)],
        }
    }

    fn drawn(width: u16, height: u16, interval: &Stats) -> Terminal<TestBackend> {
        let total = stats(3_725_000, 10);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| {
                draw(frame, &View { place: "/mnt", total: &total, interval, files: &files() })
            })
            .unwrap();
        terminal
    }

    fn text(terminal: &Terminal<TestBackend>) -> Vec<String> {
        let buffer = terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let lines = buffer.content.chunks(width);
        lines
            .map(|cells| {
                cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
            })
            .collect()
    }

    #[test]
    fn everything_is_on_the_screen() {
        let lines = text(&drawn(80, 43, &stats(2000, 1)));
        let expected = "\
\x20/mnt, mounted for 1:02:05                                              q quits
┌tiers─────────────────────────────────────────────────────────────────────────┐
│TIER                     USE%      FREE READS/S WRITES/S    READ/S   WRITE/S  │
│pm     ████████████····  75 %   250 MiB      50       25   512 KiB     1 MiB  │
│disk1  ███████████████·  95 %    50 MiB      50       25   512 KiB     1 MiB  │
│disk2  █···············   0 %  1000 MiB      50       25   512 KiB     1 MiB  │
└──────────────────────────────────────────────────────────────────────────────┘
┌in and out, per second────────────────────────────────────────────────────────┐
│TIER      WRITTEN WRITTEN BACK   MOVED IN       READ    FETCHED  MOVED OUT    │
│pm            0 B            -      1 KiB    512 KiB          -        0 B    │
│disk1           -          0 B      1 KiB    512 KiB        0 B        0 B    │
│disk2           -          0 B      1 KiB    512 KiB        0 B        0 B    │
│cache         0 B            -          -        0 B          -          -    │
└──────────────────────────────────────────────────────────────────────────────┘
┌who waits─────────────────────────────────────────────────────────────────────┐
│FOR                          NOW LAST SECOND     WAITS     TOTAL   LONGEST    │
│an fsync's way to a disk       1           3        70     10 ms    400 µs    │
└──────────────────────────────────────────────────────────────────────────────┘
┌page cache, predictors────────────────────────────────────────────────────────┐
│█████████······· 1 MiB dirty, 32 MiB clean, of 64 MiB; 75 % hits              │
│predictions that came true: 90.0 % lately, 90.0 % in all                      │
│stored to PM: 110 MiB, 1.10 times what writes there asked for                 │
│direct path: nothing is lent                                                  │
└──────────────────────────────────────────────────────────────────────────────┘
┌flows─────────────────────────────────────────────────────────────────────────┐
│WAY                                        PER SECOND     IN ALL              │
│programs → PM           to PM                   5 MiB    100 MiB              │
│programs → page cache   to page cache             0 B        0 B              │
│page cache → disks      written back            2 MiB     40 MiB              │
│PM → disks              write migration           0 B        0 B              │
│PM → disks, page cache  read migration            0 B        0 B              │
│disks → PM              reverse migration         0 B        0 B              │
│PM → disks              log migration             0 B        0 B              │
│disks → slower disks    demotion                  0 B        0 B              │
│any tier → its own      pinned data               0 B        0 B              │
│any tier → any other    evict, warm, pin          0 B        0 B              │
└──────────────────────────────────────────────────────────────────────────────┘
┌hottest and coldest files─────────────────────────────────────────────────────┐
│     FILE                          BYTES                          READ WRITTEN│
│hot  /db/wal                       cache 1 MiB, pm 3 MiB           2 s     1 s│
│hot  /a path that is too long for  disk1 1 MiB                       -   4 min│
│cold inode 9                       disk2 1 MiB                     5 h     4 d│
└──────────────────────────────────────────────────────────────────────────────┘";
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn a_usual_terminal_shows_who_waits_and_leaves_out_what_does_not_fit() {
        let two_tiers = |mut stats: Stats| {
            stats.tiers.truncate(2);
            stats
        };
        let lines = text(&drawn(80, 24, &two_tiers(stats(2000, 1))));
        let frames: Vec<&str> = lines
            .iter()
            .filter(|l| l.starts_with('┌'))
            .map(|l| l.trim_matches(['┌', '─', '┐']))
            .collect();
        assert_eq!(
            frames,
            ["tiers", "in and out, per second", "who waits", "page cache, predictors"]
        );
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        let idle = Stats { waits: Vec::new(), ..two_tiers(stats(2000, 1)) };
        assert!(text(&drawn(80, 24, &idle)).iter().any(|line| line.contains("nobody has, so far")));
    }

    #[test]
    fn full_tiers_are_red() {
        let terminal = drawn(80, 23, &stats(2000, 1));
        let colour = |line| terminal.backend().buffer()[(12, line)].fg;
        assert_eq!([3, 4, 5].map(colour), [Color::Yellow, Color::Red, Color::Reset]);
        assert_eq!(
            [0, 69, 70, 89, 90, 100].map(|used| fullness(used, 100)),
            [Color::Green, Color::Green, Color::Yellow, Color::Yellow, Color::Red, Color::Red]
        );
    }

    #[test]
    fn bars_show_little_and_never_too_much() {
        let cells = |parts: &[u64], whole| -> String {
            let parts: Vec<_> = parts.iter().map(|&part| (part, Color::Green)).collect();
            bar(&parts, whole).iter().map(|span| span.content.to_string()).collect()
        };
        assert_eq!(cells(&[1], 1000), "█···············");
        assert_eq!(cells(&[500, 250], 1000), "████████████····");
        assert_eq!(cells(&[0], 0), "················");
        assert_eq!(cells(&[u64::MAX, 5], u64::MAX), "████████████████");
    }

    #[test]
    fn small_terminals_and_idle_volumes_are_drawn() {
        for (width, height) in [(1, 1), (20, 5), (80, 10), (300, 100)] {
            let lines = text(&drawn(width, height, &Stats::default()));
            assert!(width < 20 || lines[0].starts_with(" /mnt"), "{lines:?}");
        }
    }
}
