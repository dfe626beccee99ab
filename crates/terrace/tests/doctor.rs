//! `terrace doctor`, and what `mount` and `status` say of the way of messages.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Place, can_mount, terrace, wait_until};
use serde_json::Value;

/// What is found with these arguments, and the exit status.
fn findings(args: &[&str]) -> (Vec<Value>, Option<i32>) {
    let ran = terrace(["doctor", "--json"].iter().chain(args));
    assert_eq!(ran.stderr, "", "{ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    (found["findings"].as_array().expect("a list").clone(), ran.code)
}

/// Whether the kernel offers FUSE over io_uring; `None`: it does not know it.
fn switch() -> Option<String> {
    let state = fs::read_to_string("/sys/module/fuse/parameters/enable_uring").ok()?;
    Some(state.trim().to_owned())
}

fn about<'a>(findings: &'a [Value], topic: &str) -> &'a Value {
    findings.iter().find(|finding| finding["topic"] == topic).expect("it was looked at")
}

#[test]
fn each_trouble_of_this_machine_is_a_line_with_a_remedy() {
    let (found, code) = findings(&[]);
    let is_unsafe = found.iter().any(|finding| finding["verdict"] == "unsafe");
    assert_eq!(code, Some(if is_unsafe { 8 } else { 0 }), "{found:?}");
    let text = terrace(["doctor"]).stdout;
    assert_eq!(text.lines().count(), found.len(), "{text}");
    for (line, finding) in text.lines().zip(&found) {
        let [verdict, topic] = ["verdict", "topic"].map(|key| finding[key].as_str().unwrap());
        let is_fine = verdict == "ok";
        assert_eq!(finding["remedy"].is_null(), is_fine, "{finding}");
        assert_eq!(line.contains("; remedy: "), !is_fine, "{line}");
        // Free memory, and what other tests switch, change meanwhile.
        assert!(line.contains(&format!("{topic}: ")), "{line}: {finding}");
    }
    for topic in ["kernel", "io_uring", "/dev/fuse", "memory", "/dev/shm", "processors"] {
        about(&found, topic);
    }
}

#[test]
fn devices_are_judged_by_where_they_lie() {
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let (pm, disk) = (place.path("pm"), place.path("disk"));
    let (found, code) = findings(&[&pm]);
    assert_eq!(code, Some(8), "a file of a test lies in memory");
    let of_pm = about(&found, &format!("pm {pm}"));
    assert_eq!(of_pm["verdict"], "unsafe");
    assert!(of_pm["remedy"].as_str().unwrap().contains("terrace save"), "{of_pm}");
    // The disk is known by the volume.
    assert_eq!(about(&found, &format!("disk {disk}"))["verdict"], "unsafe");

    fs::set_permissions(&disk, fs::Permissions::from_mode(0o644)).unwrap();
    let (found, code) = findings(&["--disk", &disk, "--disk", "/no/such/disk"]);
    assert_eq!(code, Some(8));
    let open = found.iter().find(|it| it["remedy"] == format!("`chmod 600 {disk}`"));
    assert_eq!(open.expect("others may read it")["verdict"], "unsafe");
    assert_eq!(about(&found, "disk /no/such/disk")["verdict"], "missing");
}

#[test]
fn what_is_no_volume_is_said() {
    let place = Place::new();
    let mnt = place.path("mnt");
    terrace(["doctor", &mnt]).fails(1, &[&mnt, "no Terrace volume is mounted here"]);
    let missing = place.path("missing");
    terrace(["doctor", &missing]).fails(1, &[&missing]);
    fs::write(place.path("empty"), vec![0; 4 << 20]).unwrap();
    let (found, _) = findings(&[&place.path("empty")]);
    assert!(found.iter().all(|finding| !finding["topic"].as_str().unwrap().starts_with("disk")));
}

#[test]
fn a_mount_tells_the_way_of_its_messages() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let mnt = place.path("mnt");
    let before = switch();
    let ran = place.mount("pm", &["-o", "transport=auto"]);
    let way = place.status("mnt")["transport"]["way"].as_str().unwrap().to_owned();
    let says_so = ran.stderr.contains("messages come over /dev/fuse, as ");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!says_so || way == "device", "{way}: {ran:?}");
    assert_eq!(ran.stderr.contains("`terrace doctor`"), says_so, "{ran:?}");
    // Other tests may switch it meanwhile.
    if before.as_deref() != Some("Y") && switch() == before {
        assert!(says_so, "{before:?}: {ran:?}");
    }
    let (found, code) = findings(&[&mnt]);
    assert_eq!(code, Some(8), "PM lies in memory");
    assert!(about(&found, "transport")["found"].as_str().unwrap().starts_with("messages come"));
    for topic in [format!("pm {}", place.path("pm")), format!("disk {}", place.path("disk"))] {
        assert_eq!(about(&found, &topic)["verdict"], "unsafe");
    }
    // The same by the PM device of a mounted volume.
    let (by_pm, _) = findings(&[&place.path("pm")]);
    assert_eq!(by_pm.len(), found.len(), "{by_pm:?}");
    place.umount();

    let ran = place.mount("pm", &["-o", "transport=device,threads=3"]);
    assert!(!ran.stderr.contains("/dev/fuse") && ran.code == Some(0), "{ran:?}");
    assert_eq!(place.status("mnt")["transport"]["way"], "device");
    wait_until("all threads serve", || place.status("mnt")["transport"]["threads"] == 3);
    let text = terrace(["status", &mnt]).ok();
    assert!(text.contains("\ntransport: /dev/fuse, 3 threads, buffers of "), "{text}");
    place.umount();
}
