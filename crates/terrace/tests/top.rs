//! `terrace top` on a terminal: it draws, and leaves the terminal as it was.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use common::{Place, TERRACE, can_mount, kill, wait_until};

/// Leaves the screen that was drawn on.
const LEAVE: &str = "\x1b[?1049l";

/// A terminal of 100 columns and 48 lines: all parts of the screen have room.
struct Terminal {
    keyboard: File,
    line: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Terminal {
    fn new() -> Terminal {
        let (mut master, mut line) = (-1, -1);
        let size = libc::winsize { ws_row: 48, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: both numbers are writable; the name and the settings may be null; `size` outlives
        // the call.
        let result = unsafe {
            libc::openpty(&mut master, &mut line, std::ptr::null_mut(), std::ptr::null(), &size)
        };
        assert_eq!(result, 0, "a pseudoterminal");
        // SAFETY: both are open descriptors that nobody else owns.
        let (master, line) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(line)) };
        let keyboard = master.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let (mut master, mut buf) = (master, [0; 4096]);
            // It fails when nobody has the line open any more.
            while let Ok(n @ 1..) = master.read(&mut buf) {
                into.lock().unwrap().extend_from_slice(&buf[..n]);
            }
        });
        Terminal { keyboard, line, shown, reader }
    }

    fn start(&self, place: &Place) -> Child {
        let line = || Stdio::from(self.line.try_clone().unwrap());
        let mut command = Command::new(TERRACE);
        command.args(["top", &place.path("mnt")]).env("TERM", "xterm-256color");
        command.stdin(line()).stdout(line()).stderr(line()).spawn().expect("the program runs")
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Flags of input, output and the line itself.
    fn settings(&self) -> [libc::tcflag_t; 3] {
        // SAFETY: all-zero is a valid termios; the descriptor is open and the structure writable.
        let settings = unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.line.as_raw_fd(), &mut settings), 0);
            settings
        };
        [settings.c_iflag, settings.c_oflag, settings.c_lflag]
    }

    /// All that was ever shown.
    fn close(self) -> String {
        drop(self.line);
        self.reader.join().unwrap();
        let shown = self.shown.lock().unwrap();
        String::from_utf8(shown.clone()).expect("UTF-8")
    }
}

/// Starts it on a terminal, waits until it has drawn, and has `end` end it; returns what was shown.
fn watch(place: &Place, end: impl FnOnce(&Child, &mut File)) -> String {
    let mut terminal = Terminal::new();
    let before = terminal.settings();
    let mut child = terminal.start(place);
    wait_until("it draws", || terminal.text().contains("mounted for"));
    // Spaces are not drawn on an empty screen.
    wait_until("who waits", || terminal.text().contains("waits:"));
    assert!(terminal.text().contains("FETCHED"), "{}", terminal.text());
    assert_ne!(terminal.settings(), before, "keys come at once, and unseen");
    end(&child, &mut terminal.keyboard);
    assert!(child.wait().unwrap().success());
    assert_eq!(terminal.settings(), before);
    terminal.close()
}

#[test]
fn it_draws_and_puts_the_terminal_back_however_it_ends() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let quit = watch(&place, |_, keyboard| keyboard.write_all(b"q").unwrap());
    for part in ["tiers", "disk1", "flows", "page cache", "q quits"] {
        assert!(quit.contains(part), "{part}: {quit}");
    }
    let interrupted = watch(&place, |_, keyboard| keyboard.write_all(b"\x03").unwrap());
    let terminated = watch(&place, |child, _| kill(child.id() as i32, libc::SIGTERM));
    let unmounted = watch(&place, |_, _| place.umount());
    for shown in [quit, interrupted, terminated, unmounted.clone()] {
        assert!(shown.contains(LEAVE), "{shown}");
    }
    let (_, after) = unmounted.rsplit_once(LEAVE).unwrap();
    assert!(after.contains("mnt: unmounted"), "{after}");
}
