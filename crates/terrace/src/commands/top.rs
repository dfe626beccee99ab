//! `terrace top`

use std::io::{IsTerminal, stdin, stdout};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::cli::measure::TopArgs;
use crate::sampler::Sampler;
use crate::screen::{self, View};
use crate::{daemon, mounts, output};

/// How soon a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why the screen is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Asked,
    Unmounted,
}

/// What a wait ends with.
enum Woken {
    Quit,
    Resized,
    Due,
}

/// Draws what a volume does, until somebody wants to quit or the volume is unmounted.
pub fn run(args: &TopArgs, quiet: bool) -> Result<()> {
    let target = args.target.display();
    if !stdin().is_terminal() || !stdout().is_terminal() {
        bail!("top needs a terminal to draw on; `terrace stats {target}` prints the same numbers");
    }
    let mountpoint = mounts::of_volume(&args.target)?.mountpoint;
    let place = mountpoint.display().to_string();
    let sampler = Sampler::new(mountpoint)?;
    let signals = daemon::terminations()?;
    if watch(&place, sampler, &signals, Duration::from_secs(args.interval))? == End::Unmounted {
        output::remark(quiet, &format!("{target}: unmounted"));
    }
    Ok(())
}

fn watch(
    place: &str,
    mut sampler: Sampler,
    signals: &Receiver<i32>,
    period: Duration,
) -> Result<End> {
    let mut screen = Screen::open()?;
    let mut interval = sampler.total().since(sampler.total());
    let mut files = sampler.files();
    let mut due = Instant::now() + period;
    loop {
        let view = View { place, total: sampler.total(), interval: &interval, files: &files };
        screen.0.draw(|frame| screen::draw(frame, &view)).context("cannot draw on the terminal")?;
        match wait(signals, due)? {
            Woken::Quit => return Ok(End::Asked),
            Woken::Resized => continue,
            Woken::Due => {}
        }
        match sampler.next_interval()? {
            Some(stats) => (interval, files) = (stats, sampler.files()),
            None => return Ok(End::Unmounted),
        }
        due = Instant::now() + period;
    }
}

/// Waits until `due`, or for a key or a signal before.
fn wait(signals: &Receiver<i32>, due: Instant) -> Result<Woken> {
    loop {
        if !matches!(signals.try_recv(), Err(TryRecvError::Empty)) {
            return Ok(Woken::Quit);
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Woken::Due);
        }
        if !event::poll(left.min(LOOK_EVERY)).context("cannot read from the terminal")? {
            continue;
        }
        match event::read().context("cannot read from the terminal")? {
            Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Woken::Quit),
                // The terminal does not make a signal of it meanwhile.
                KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => {
                    return Ok(Woken::Quit);
                }
                _ => {}
            },
            Event::Resize(..) => return Ok(Woken::Resized),
            _ => {}
        }
    }
}

/// The terminal, which is as it was before when this is dropped, and after a panic.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> Result<Self> {
        // It also sees to it that a panic puts the terminal back before it says what is wrong.
        ratatui::try_init()
            .map(Screen)
            .inspect_err(|_| ratatui::restore())
            .context("cannot prepare the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
