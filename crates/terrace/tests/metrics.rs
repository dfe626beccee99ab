//! Metrics of a mounted volume, as Prometheus fetches them.

mod common;

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

use common::{Place, can_mount, wait_until};

/// The answer to a request on the socket `name`. A connection is closed after two seconds, and then
/// there is none: on a machine that is busy, one has to ask again.
fn ask(place: &Place, name: &str, request: &str) -> String {
    let answer = RefCell::new(String::new());
    wait_until("there is an answer", || {
        let mut stream = UnixStream::connect(place.path(name)).expect("somebody serves");
        let answer = &mut *answer.borrow_mut();
        answer.clear();
        stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read_to_string(answer))
            .is_ok_and(|len| len > 0)
    });
    answer.into_inner()
}

#[test]
fn metrics_are_served_as_long_as_the_volume_is_mounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let option = format!("metrics={}", place.path("socket"));
    fs::write(place.path("socket"), "a file").unwrap();
    place.mount("pm", &["-o", &option]).fails(1, &["metrics=", "is no socket"]);
    assert!(!place.is_mounted("mnt"));
    fs::remove_file(place.path("socket")).unwrap();

    place.mount("pm", &["-o", &option]).ok();
    fs::write(place.path("mnt/file"), vec![1; 10_000]).unwrap();
    let answer = ask(&place, "socket", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "terrace_pm_written_bytes_total 10000",
        "terrace_tier_capacity_bytes{tier=\"disk1\"} 268435456",
    ] {
        assert!(answer.lines().any(|other| other == line), "{line}: {answer}");
    }
    let uuid = place.status("mnt")["uuid"].as_str().unwrap().to_owned();
    assert!(answer.contains(&format!("\nterrace_volume_info{{uuid=\"{uuid}\"}} 1\n")), "{answer}");
    assert!(ask(&place, "socket", "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(&place, "socket", "DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    place.umount();
    assert!(!place.names().contains(&"socket".to_owned()), "the socket goes with the mount");
}

#[test]
fn what_a_killed_daemon_leaves_is_in_nobodys_way() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let option = format!("metrics={}", place.path("socket"));
    place.mount("pm", &["-o", &option]).ok();
    place.kill_daemon("pm");
    place.umount();
    assert!(
        fs::symlink_metadata(place.path("socket")).unwrap().file_type().is_socket(),
        "a dead socket is left"
    );
    place.mount("pm", &["-o", &option]).ok();
    let answer = ask(&place, "socket", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.contains("\nterrace_pm_written_bytes_total 0\n"), "{answer}");
    place.umount();
}
